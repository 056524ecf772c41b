//! Small fleets and claims made up from a number, in the words of the cases, so that a failure can be read and kept.

/// A generator of numbers that are random enough.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[usize::try_from(self.roll(of.len() as u64)).unwrap()]
    }
}

/// A case without an expectation. Quantities are whole and small, so that a simple reference can follow.
pub(crate) fn case(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let features: String = "APCTBKLDGO".chars().filter(|_| dice.chance(92)).collect();
    let mut text = format!("== random-{seed} {features}\n");
    if dice.chance(50) {
        text.push_str("node n1 zone=1 +DRAOptionalNodeOperations\n");
    }
    text.push_str("class a\nclass b\nclass x *\n");
    let mut slice = 0;
    let mut all_devices = Vec::new();
    for pool in ["a/p1", "a/p2", "b/p1"] {
        if dice.chance(70) {
            pool_of(&mut dice, pool, &mut slice, &mut text, &mut all_devices);
        }
    }
    for device in &all_devices {
        if dice.chance(15) {
            let how = dice.one(&["", "", " share mem=1", " share", " admin"]);
            text.push_str(&format!("held {device}{how}\n"));
        }
    }
    for claim in 0..1 + dice.roll(5) / 3 {
        text.push_str(&format!("claim c{claim}: {}\n", claim_of(&mut dice)));
    }
    text
}

fn pool_of(dice: &mut Dice, pool: &str, slice: &mut u64, text: &mut String, all: &mut Vec<String>) {
    let device_slices = 1 + dice.roll(2);
    let has_counters = dice.chance(50);
    let mut count = device_slices + u64::from(has_counters);
    if dice.chance(2) {
        count += 1;
    }
    let mut number = 0;
    for _ in 0..device_slices {
        *slice += 1;
        let nodes = dice.one(&["@n1", "@n1", "@n1", "@n1", "@n2", "@*", "@zone=1", "@each"]);
        let skip = if dice.chance(5) { " skip=*" } else { "" };
        text.push_str(&format!(
            "slice s{slice} {pool}^{}/{count} {nodes}{skip}: ",
            if dice.chance(2) { 2 } else { 1 }
        ));
        for _ in 0..1 + dice.roll(4) {
            number += 1;
            let name = if dice.chance(3) { 1 } else { number };
            text.push_str(&device(dice, &format!("d{name}"), nodes == "@each", has_counters));
            all.push(format!("{pool}/d{name}"));
        }
        text.push('\n');
    }
    if has_counters {
        *slice += 1;
        let nodes = dice.one(&["@n1", "@n1", "@*"]);
        let (one, two) = (1 + dice.roll(4), 1 + dice.roll(3));
        text.push_str(&format!("counters s{slice} {pool}/{count} {nodes}: one x={one} y=3; two x={two}\n"));
    }
}

fn device(dice: &mut Dice, name: &str, each: bool, counters: bool) -> String {
    let mut text = name.to_owned();
    let mut add = |word: &str| {
        text.push(' ');
        text.push_str(word);
    };
    if dice.chance(85) {
        add(dice.one(&[
            ".t.org/n=1",
            ".t.org/n=1",
            ".t.org/n=2",
            ".t.org/n=one",
            ".t.org/n=[1,2]",
            ".t.org/n=[2,3]",
        ]));
    }
    if dice.chance(80) {
        add(dice.one(&[".t.org/m=1", ".t.org/m=2", ".t.org/m=3"]));
    }
    if dice.chance(50) {
        add(dice.one(&["mem=2", "mem=3", "mem=4"]));
    }
    if dice.chance(35) {
        if dice.chance(50) {
            add(dice.one(&["cpu=4{default=1,min=1,max=3,step=2}", "cpu=4{default=2,in=2+4}"]));
        }
        add("shared");
    }
    if counters && dice.chance(70) {
        add(dice.one(&["-one.x=1", "-one.x=2", "-one.x=1 -two.x=1", "-two.x=1 -one.y=2"]));
        let grouped = dice.chance(30) && text.contains("-one");
        if grouped {
            text.push_str(dice.one(&[" ~one=g", " ~one=h", " ~one=g+h"]));
        }
    }
    let mut add = |word: &str| {
        text.push(' ');
        text.push_str(word);
    };
    if dice.chance(15) {
        add(dice.one(&["!k=v:NoSchedule", "!k=w:NoExecute", "!k=v:None"]));
    }
    if dice.chance(8) {
        add("when=Ready fails=Broken");
    }
    if each {
        add(dice.one(&["@n1", "@n1", "@n2", "@*", "@zone=1", "@zone=2"]));
    }
    text.push_str("; ");
    text
}

fn claim_of(dice: &mut Dice) -> String {
    let mut items = Vec::new();
    let requests = 1 + dice.roll(5) / 2;
    for at in 0..requests {
        items.push(if dice.chance(25) {
            let (first, second) = (request(dice, true), request(dice, true));
            format!("r{at}=[s0 {first} | s1 {second}]")
        } else {
            format!("r{at}={}", request(dice, false))
        });
    }
    for kind in ["match", "distinct"] {
        if dice.chance(25) {
            let on = dice.one(&["", "", " on r0", " on r0 r1", " on r0/s0 r1"]);
            items.push(format!("{kind} {}{on}", dice.one(&["t.org/n", "t.org/m", "t.org/z"])));
        }
    }
    items.join("; ")
}

fn request(dice: &mut Dice, in_list: bool) -> String {
    let mut text = dice.one(&["a", "a", "x", "b", "x"]).to_owned();
    text.push_str(dice.one(&["", "", "", "*2", "*2", "*3", "*all"]));
    let mut add = |percent: u64, word: &str| {
        if dice.chance(percent) {
            text.push(' ');
            text.push_str(word);
        }
    };
    add(8, "`device.attributes[\"t.org\"].m >= 2`");
    add(15, "`device.attributes[\"t.org\"].?m.orValue(9) != 2`");
    add(25, "tol:k=v:NoSchedule");
    add(10, "tol:*");
    add(12, "need:mem=2");
    add(4, "need:cpu=2");
    add(if in_list { 0 } else { 15 }, "admin");
    add(6, "derive:t.org/z=`device.attributes[\"t.org\"].m`");
    text
}
