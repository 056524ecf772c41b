//! Completions and manual pages.

use std::path::Path;

use clap_complete::Shell;

use crate::{Console, Error, Verdict, args};

/// As which program completions are made: kubectl looks for plugins by this name.
const PROGRAM: &str = "kubectl-device";

pub(super) fn completion(console: &mut Console, shell: Shell) -> Result<Verdict, Error> {
    console.print(&completion_script(shell, &mut args::command().bin_name(PROGRAM), PROGRAM))?;
    Ok(Verdict::Yes)
}

/// A script that makes `shell` complete the words of `program`. Where the shell is one that people use, it asks the program, which asks the
/// cluster; elsewhere it knows commands and flags.
#[must_use]
pub fn completion_script(shell: Shell, command: &mut clap::Command, program: &str) -> String {
    let asking = [(Shell::Bash, BASH), (Shell::Zsh, ZSH), (Shell::Fish, FISH)];
    let Some((_, template)) = asking.into_iter().find(|(known, _)| *known == shell) else {
        let mut script = Vec::new();
        clap_complete::generate(shell, command, program, &mut script);
        return String::from_utf8_lossy(&script).into_owned();
    };
    template
        .replace("PROGRAM", program)
        .replace("FUNCTION", &format!("_{}_complete", program.replace('-', "_")))
        .replace("COMPLETE", args::COMPLETE)
}

/// Bash splits words at `=` and `:`. The line is split at spaces again, and what bash has already is cut off the candidates.
const BASH: &str = r#"# bash completion for PROGRAM
FUNCTION() {
    local line="${COMP_LINE:0:COMP_POINT}" candidate directive=0 typed="${COMP_WORDS[COMP_CWORD]}"
    local -a words
    read -ra words <<< "$line"
    [[ "$line" == *' ' ]] && words+=('')
    local whole="${words[${#words[@]}-1]}"
    [[ "$typed" == [=:] ]] && typed=''
    local known="${whole%"$typed"}"
    COMPREPLY=()
    while IFS= read -r candidate; do
        case "$candidate" in
            :*) directive="${candidate#:}" ;;
            *) candidate="${candidate%%$'\t'*}"; COMPREPLY+=("${candidate#"$known"}") ;;
        esac
    done < <("${words[0]}" COMPLETE -- "${words[@]:1}" 2>/dev/null)
    [[ "$directive" == 0 ]] && compopt -o default 2>/dev/null
    return 0
}
complete -F FUNCTION PROGRAM
"#;

const ZSH: &str = r#"#compdef PROGRAM
FUNCTION() {
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" COMPLETE -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ "$line" == ":0" ]]; then
            _files
        elif [[ "$line" != :* ]]; then
            candidates+=("${line%%$'\t'*}")
        fi
    done
    compadd -- "${candidates[@]}"
}
compdef FUNCTION PROGRAM
"#;

const FISH: &str = r"# fish completion for PROGRAM
function FUNCTION
    set -l words (commandline -opc) (commandline -ct)
    $words[1] COMPLETE -- $words[2..-1] 2>/dev/null | string match -v ':*'
end
complete -c PROGRAM -f -a '(FUNCTION)'
";

/// Writes one page for a command and one for each of its commands.
///
/// # Errors
/// When the folder or a file in it cannot be written.
pub fn man_pages(command: clap::Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder)
}

/// One page for the command and one for each of its commands.
pub(super) fn man(console: &mut Console, folder: &Path) -> Result<Verdict, Error> {
    man_pages(args::command().bin_name(PROGRAM), folder)
        .map_err(|error| Error::usage(format!("write pages to {}: {error}", folder.display())))?;
    console.note(&format!("wrote manual pages to {}", folder.display()));
    Ok(Verdict::Yes)
}
