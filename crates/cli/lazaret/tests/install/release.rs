//! The scripts of a release.

use std::{
    env, fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{render::deploy, support::LAZARET, tools};

/// The scripts of a release work: an image whose files run without those of this machine, and a bill of materials of what is linked in.
#[test]
fn an_image_holds_what_the_binary_needs_and_a_bill_of_materials_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    // Debug information is most of a binary that was built for tests.
    let small = folder.path().join("lazaret");
    let stripped = Command::new("strip").arg("-o").arg(&small).arg(LAZARET).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(LAZARET, &small).unwrap();
    }
    let image = |program: &Path, name: &str| {
        let to = folder.path().join(name);
        let script = deploy("release/image.py");
        tools::run(Command::new("python3").arg(script).arg(program).arg(&to).args(["--tag", "lazaret:test"]));
        fs::read(&to).unwrap()
    };
    // A small one shows it as well, and is packed in no time.
    let shell = Path::new("/bin/sh");
    assert!(image(shell, "b.tar") == image(shell, "c.tar"), "the same binary makes the same image");
    image(&small, "a.tar");
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    tools::run(Command::new("tar").arg("-xf").arg(folder.path().join("a.tar")).arg("-C").arg(&layout));
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let path = layout.join("blobs/sha256").join(&digest);
        let sum = tools::run(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(&digest), "{sum}");
        path
    };
    let manifest = read(&blob(&read(&layout.join("index.json"))["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/local/bin/lazaret"]));
    assert_eq!(config["config"]["User"], "65532");
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    tools::run(Command::new("tar").arg("-xzf").arg(blob(&manifest["layers"][0])).arg("-C").arg(&root));
    // With the image's own loader, which finds libraries in the image alone.
    let loader = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"].map(|path| root.join(path));
    let loader = loader.iter().find(|path| path.exists()).unwrap();
    let libraries = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"]
        .map(|path| root.join(path).display().to_string());
    let said = tools::run(
        Command::new(loader)
            .args(["--inhibit-cache", "--library-path", &libraries.join(":")])
            .arg(root.join("usr/local/bin/lazaret"))
            .arg("--version"),
    );
    assert!(said.starts_with("lazaret "), "{said}");

    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut metadata = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let host = tools::run(Command::new("rustc").arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]);
    let metadata = tools::run(metadata.current_dir(&workspace));
    let mut script = Command::new("python3");
    script.arg(deploy("release/sbom.py")).arg(workspace.join("Cargo.lock"));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = script.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(metadata.as_bytes()).unwrap());
    let output = script.wait_with_output().unwrap();
    writer.join().unwrap();
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named =
        |name: &str| bill["components"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(bill["metadata"]["component"]["name"], "lazaret");
    assert!(named("tokio").unwrap()["hashes"][0]["content"].is_string());
    assert_eq!(named("lazaret-eviction").unwrap()["licenses"][0]["expression"], "Apache-2.0");
    assert_eq!(named("expect-test"), None, "only tests need it");
}

/// The two architectures of a release: as targets begin, as images name them, and the number in the header of a program.
const MACHINES: [(&str, &str, u8); 2] = [("x86_64", "amd64", 62), ("aarch64", "arm64", 183)];

/// A program of 64 bytes: the header alone. No machine runs it, and tools that read headers take it for a static program.
fn header(machine: u8) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    bytes.resize(64, 0);
    (bytes[16], bytes[18], bytes[20], bytes[52]) = (2, machine, 1, 64);
    bytes
}

/// A release with doubles of what takes long: `cargo build`, which leaves a note, and `strip`, which leaves a header of a program.
struct Release {
    folder: tempfile::TempDir,
    /// The machine's own architecture first.
    machines: Vec<(&'static str, &'static str, u8)>,
}

impl Release {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut machines = MACHINES.to_vec();
        machines.sort_by_key(|(name, ..)| *name != env::consts::ARCH);
        let release = Self { folder, machines };
        let (own, other) = (release.machines[0], release.machines[1]);
        fs::create_dir(release.path("bin")).unwrap();
        fs::write(release.path("own"), header(own.2)).unwrap();
        fs::write(release.path("other"), header(other.2)).unwrap();
        // The real one, also when this test is not started by it.
        let cargo = env!("CARGO");
        // The last word of a build is its target.
        release.tool(
            "cargo",
            &format!(
                r#"case $1 in
metadata) exec {cargo} "$@" --offline ;;
build) echo "$* linker ${{CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER##*/}} ${{CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER##*/}}" >>"$NOTES/builds" ;;
*) exit 1 ;;
esac
for target; do :; done
mkdir -p "$CARGO_TARGET_DIR/$target/dist"
case $target in {own}-*) ln -s {LAZARET} "$CARGO_TARGET_DIR/$target/dist/lazaret" ;; *) cp "$NOTES/other" "$CARGO_TARGET_DIR/$target/dist/lazaret" ;; esac"#,
                own = own.0
            ),
        );
        release.tool("strip", r#"cp "$NOTES/own" "$2""#);
        release.tool(&format!("{}-linux-gnu-strip", other.0), r#"cmp "$3" "$NOTES/other" && cp "$3" "$2""#);
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tool(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn script(&self) -> Command {
        let path = env::var("PATH").unwrap();
        let mut command = Command::new(deploy("release/release.sh"));
        command.arg(self.path("out"));
        command.args(self.machines.iter().map(|(name, ..)| format!("{name}-unknown-linux-gnu")));
        command
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("NOTES", self.folder.path())
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("SOURCE_DATE_EPOCH", "0");
        command
    }

    /// Names in an archive.
    fn names(&self, archive: &str) -> String {
        tools::run(Command::new("tar").arg("-tf").arg(self.path("out").join(archive)))
    }

    /// A file of an archive.
    fn file(&self, archive: &str, name: &str) -> Vec<u8> {
        let mut tar = Command::new("tar");
        let output = tar.arg("-xOf").arg(self.path("out").join(archive)).arg(name).output().unwrap();
        assert!(output.status.success(), "{archive}: {name}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// A release for both architectures: each has its binary, plugin, image and bill of materials, and all have their checksums.
#[test]
fn a_release_has_everything_for_both_architectures() {
    let release = Release::new();
    tools::run(&mut release.script());
    let out = release.path("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let builds = fs::read_to_string(release.path("builds")).unwrap();
    let compilers = MACHINES.map(|(name, ..)| {
        if name == env::consts::ARCH { "cc".to_owned() } else { format!("{name}-linux-gnu-gcc") }
    });
    let wanted: String = release
        .machines
        .iter()
        .map(|(name, ..)| {
            let [x86, arm] = &compilers;
            format!(
                "build --profile dist --locked -p lazaret --target {name}-unknown-linux-gnu linker {arm} {x86}\n"
            )
        })
        .collect();
    assert_eq!(builds, wanted);

    let version = env!("CARGO_PKG_VERSION");
    let krew: Value = serde_saphyr::from_str(&read("device.yaml")).unwrap();
    assert_eq!(krew["spec"]["platforms"].as_array().unwrap().len(), 2);
    for (at, (_, machine, number)) in release.machines.iter().enumerate() {
        let name = format!("lazaret-{version}-linux-{machine}");
        let names = release.names(&format!("{name}.tar.gz"));
        for file in ["lazaret", "man/lazaret.1", "completions/lazaret.bash", "completions/kubectl-device.zsh"]
        {
            assert!(names.lines().any(|line| line == format!("./{name}/{file}")), "{file}: {names}");
        }
        let plugin = format!("kubectl-device-{version}-linux-{machine}.tar.gz");
        let program = release.file(&plugin, "./kubectl-device");
        assert_eq!(program[18], *number, "{plugin}");
        let platform = &krew["spec"]["platforms"][at];
        assert_eq!(platform["selector"]["matchLabels"]["arch"], *machine);
        let sum = tools::run(Command::new("sha256sum").arg(out.join(&plugin)));
        assert_eq!(platform["sha256"].as_str(), sum.split(' ').next());
        let index = release.file(&format!("lazaret-{version}-image-{machine}.tar"), "index.json");
        let index: Value = serde_json::from_slice(&index).unwrap();
        assert_eq!(index["manifests"][0]["platform"]["architecture"], *machine);
        let bill: Value = serde_json::from_str(&read(&format!("{name}.cdx.json"))).unwrap();
        assert!(bill["components"].as_array().unwrap().iter().any(|one| one["name"] == "tokio"), "{machine}");
    }
    let checked = tools::run(Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&out));
    // For each architecture an archive, the plugin, the image and the bill; the manifests for krew and for kubectl, and the chart.
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), 11, "{checked}");
}

/// A binary of another architecture than its target's is not packaged.
#[test]
fn a_release_refuses_a_binary_of_another_architecture() {
    let release = Release::new();
    let other = release.machines[1].0;
    let mut script = release.script();
    let output = script.env(format!("LAZARET_{}", other.to_uppercase()), LAZARET).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let refusal = format!("is for {}, not for {other}-unknown-linux-gnu", env::consts::ARCH);
    assert!(text.contains(&refusal), "{text}");
    assert_eq!(fs::read_dir(release.path("out")).unwrap().count(), 0);
}
