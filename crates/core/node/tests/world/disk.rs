//! The checkpoint's files on a disk that loses power anywhere, beside a kubelet that takes over and gives back.

use std::{cell::RefCell, rc::Rc};

use lazaret_node::{
    CheckpointFile, ClaimState, Disk, Exchanged, Files, FilesError, SPARES, Written, checkpoint,
};

use crate::faults::Dice;

/// A disk tears what it writes at these.
const SECTOR_BYTES: usize = 512;
const SEEDS: u64 = 1_500;
const STEPS: usize = 60;
/// The longest text has this much more than the shortest.
const PADDING_MAX: usize = 3_000;

/// The fault of a disk; the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// Names are never synced.
    UnsyncedNames,
    /// The text of the spare is not synced.
    UnsyncedText,
    /// The spare is not found when the files are opened.
    HiddenSpare,
    /// The spare that is made anew is taken for one that was there.
    UnseenSpare,
}

#[derive(Debug, PartialEq, Eq)]
struct PowerLoss;

type Names = [Option<usize>; 1 + SPARES];

/// The files as processes see them, and as a power loss may leave them.
struct Machine {
    dice: Dice,
    mutant: Mutant,
    /// By file, what is seen, and what may be on disk.
    files: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// The files of the checkpoint and of the spares, as they are seen.
    names: Names,
    /// As they may be on disk.
    durable_names: Vec<Names>,
    /// Power fails after this many more operations.
    power: usize,
    can_exchange: bool,
}

/// The machine, for a process and for what happens beside it.
#[derive(Clone)]
struct Shared(Rc<RefCell<Machine>>);

impl Shared {
    fn new(dice: Dice, mutant: Mutant, can_exchange: bool) -> Self {
        let (files, names) = (Vec::new(), [None; 1 + SPARES]);
        let (durable_names, power) = (vec![names], usize::MAX);
        let machine = Machine { dice, mutant, files, names, durable_names, power, can_exchange };
        Self(Rc::new(RefCell::new(machine)))
    }

    fn roll(&self, sides: usize) -> usize {
        self.0.borrow_mut().dice.roll(sides)
    }
}

impl Machine {
    fn operate(&mut self) -> Result<(), PowerLoss> {
        self.power = self.power.checked_sub(1).ok_or(PowerLoss)?;
        Ok(())
    }

    fn rename(&mut self, names: Names) {
        self.names = names;
        self.durable_names.push(names);
    }

    fn make(&mut self, text: &[u8]) -> usize {
        self.files.push((text.to_vec(), vec![text.to_vec()]));
        self.files.len() - 1
    }

    /// Everything that is not on disk is lost, or is not.
    fn lose_power(&mut self) {
        let at = self.dice.roll(self.durable_names.len());
        self.names = self.durable_names[at];
        self.durable_names = vec![self.names];
        for (seen, durable) in &mut self.files {
            let at = self.dice.roll(durable.len());
            *seen = durable.swap_remove(at);
            *durable = vec![seen.clone()];
        }
        self.power = usize::MAX;
    }

    /// As kubelet does it: a file of its own, synced, that takes the name.
    fn write_as_kubelet(&mut self, text: &[u8]) {
        let file = self.make(text);
        let mut names = self.names;
        names[0] = Some(file);
        self.rename(names);
    }

    fn seen_by_kubelet(&self) -> Option<&[u8]> {
        self.names[0].map(|file| self.files[file].0.as_slice())
    }
}

impl Disk for Shared {
    type Error = PowerLoss;

    fn read(&mut self, which: CheckpointFile) -> Result<Option<Vec<u8>>, PowerLoss> {
        let machine = self.0.borrow();
        let file = match which {
            CheckpointFile::Checkpoint => machine.names[0],
            CheckpointFile::Spare(_) if machine.mutant == Mutant::HiddenSpare => None,
            CheckpointFile::Spare(at) => machine.names[1 + at],
        };
        Ok(file.map(|file| machine.files[file].0.clone()))
    }

    fn write_spare(&mut self, spare: usize, text: &[u8]) -> Result<Written, PowerLoss> {
        let machine = &mut *self.0.borrow_mut();
        let (file, written) = match machine.names[1 + spare] {
            Some(file) => (file, Written::Over),
            None => (machine.make(b""), Written::Anew),
        };
        if written == Written::Anew {
            let mut names = machine.names;
            names[1 + spare] = Some(file);
            machine.rename(names);
        }
        let before = machine.files[file].0.clone();
        let mut padded = text.to_vec();
        padded.resize(before.len().max(text.len()), b' ');
        // Each sector may be on disk or not, until it is synced.
        let mut torn = padded.clone();
        for (sector, old) in torn.chunks_mut(SECTOR_BYTES).zip(before.chunks(SECTOR_BYTES)) {
            if machine.dice.roll(2) == 0 {
                let length = sector.len().min(old.len());
                sector[..length].copy_from_slice(&old[..length]);
            }
        }
        machine.files[file] = (padded.clone(), vec![before.clone(), torn, padded.clone()]);
        machine.operate()?;
        if machine.mutant != Mutant::UnsyncedText {
            machine.files[file].1 = vec![padded];
        }
        Ok(if machine.mutant == Mutant::UnseenSpare { Written::Over } else { written })
    }

    fn exchange(&mut self, spare: usize) -> Result<Exchanged, PowerLoss> {
        let machine = &mut *self.0.borrow_mut();
        machine.operate()?;
        let mut names = machine.names;
        names.swap(0, 1 + spare);
        let are_both = names[1 + spare].is_some() && machine.can_exchange;
        if !are_both {
            names[1 + spare] = None;
        }
        machine.rename(names);
        Ok(if are_both { Exchanged::Both } else { Exchanged::Replaced })
    }

    fn sync_names(&mut self) -> Result<(), PowerLoss> {
        let machine = &mut *self.0.borrow_mut();
        machine.operate()?;
        if machine.mutant != Mutant::UnsyncedNames {
            machine.durable_names = vec![machine.names];
        }
        Ok(())
    }
}

/// A checkpoint whose claim has this number, and which is longer or shorter.
fn text(number: u64, padding: usize) -> Vec<u8> {
    let claim = ClaimState { uid: number.to_string(), name: "x".repeat(padding), ..ClaimState::default() };
    checkpoint::write(&[claim]).unwrap()
}

fn number(text: &[u8]) -> Result<u64, String> {
    let claims = checkpoint::read(text).map_err(|error| error.to_string())?;
    claims.first().map_or(Ok(0), |claim| claim.uid.parse().map_err(|_| "another claim".to_owned()))
}

/// The writes that were reported: the last one, and those before it. A kubelet must find the first of them at least.
#[derive(Default)]
struct Promised([u64; 1 + SPARES]);

impl Promised {
    fn last(&self) -> u64 {
        self.0[SPARES]
    }

    fn add(&mut self, reported: u64) {
        self.0.rotate_left(1);
        self.0[SPARES] = reported;
    }
}

/// One process, from its start to its end or to the loss of power. Returns the violated promise.
fn live(machine: &Shared, promised: &mut Promised, next: &mut u64) -> Result<(), String> {
    let (mut files, found) = match Files::open(machine.clone()) {
        Ok(opened) => opened,
        Err(FilesError::Disk(PowerLoss)) => return Ok(()),
        Err(FilesError::Checkpoint(error)) => return Err(format!("it does not start: {error}")),
    };
    let found = found.map_or(Ok(0), |text| number(&text))?;
    if found < promised.last() {
        return Err(format!("{found} is found, {} was promised", promised.last()));
    }
    // A kubelet's write is promised once its name is synced, which a kubelet does not do itself.
    if machine.0.borrow().durable_names.len() == 1 {
        promised.0[SPARES] = found;
    }
    // Syncs beside this one, and how many exchanges there were when they began: heard of at once, or later.
    let mut synced = Vec::new();
    for _ in 0..machine.roll(10) {
        if machine.roll(10) == 0 {
            // A person removes a spare.
            let at = 1 + machine.roll(SPARES);
            let mut names = machine.0.borrow().names;
            names[at] = None;
            machine.0.borrow_mut().rename(names);
        }
        while !synced.is_empty() && machine.roll(2) == 0 {
            files.synced(synced.remove(0));
        }
        *next += 1;
        if files.write(&text(*next, machine.roll(PADDING_MAX))).is_err() {
            return Ok(());
        }
        promised.add(*next);
        // The process may end before this.
        if machine.roll(6) == 0 {
            return Ok(());
        }
        let begun_after = files.exchanges();
        if machine.roll(3) > 0 {
            if machine.clone().sync_names().is_err() {
                return Ok(());
            }
            synced.push(begun_after);
        }
    }
    Ok(())
}

fn play(seed: u64, mutant: Mutant) -> Result<(), String> {
    let mut dice = Dice::of(seed);
    let can_exchange = dice.roll(5) > 0;
    let machine = Shared::new(dice, mutant, can_exchange);
    let (mut promised, mut next) = (Promised::default(), 0);
    for _ in 0..STEPS {
        if machine.roll(3) > 0 {
            let power = machine.roll(20);
            machine.0.borrow_mut().power = power;
        }
        live(&machine, &mut promised, &mut next)?;
        let is_lost = machine.roll(2) == 0;
        let mut seen = machine.0.borrow_mut();
        if is_lost || seen.power == 0 {
            seen.lose_power();
        }
        seen.power = usize::MAX;
        let found = seen.seen_by_kubelet().map_or(Ok(0), number);
        let found = found.map_err(|error| format!("a kubelet does not start: {error}"))?;
        if found < promised.0[0] {
            return Err(format!("a kubelet finds {found}, {} was promised", promised.0[0]));
        }
        if seen.dice.roll(6) == 0 {
            // A kubelet takes over. It goes on from what it finds, and does not sync names.
            promised.0[0] = found.min(promised.0[0]);
            for _ in 0..seen.dice.roll(3) {
                next += 1;
                let padding = seen.dice.roll(PADDING_MAX);
                seen.write_as_kubelet(&text(next, padding));
            }
        }
    }
    Ok(())
}

#[test]
fn what_was_reported_is_found_after_a_power_loss_and_a_kubelet_can_take_over() {
    for seed in 1..=SEEDS {
        let played = play(seed, Mutant::None);
        assert_eq!(played, Ok(()), "seed {seed}");
    }
}

#[test]
fn every_mutant_of_the_disk_is_found() {
    for mutant in [Mutant::UnsyncedNames, Mutant::UnsyncedText, Mutant::HiddenSpare, Mutant::UnseenSpare] {
        let found = (1..=SEEDS).find(|seed| play(*seed, mutant).is_err());
        assert!(found.is_some(), "{mutant:?} is not noticed");
    }
}

/// A pod waits for one sync, of the text, and not for that of the names.
#[test]
fn a_report_waits_for_one_sync() {
    let machine = Shared::new(Dice::of(1), Mutant::None, true);
    let is_synced = || machine.0.borrow().durable_names.len() == 1;
    let (mut files, found) = Files::open(machine.clone()).unwrap();
    assert_eq!(found, None);
    for written in 1..=3 {
        files.write(&text(written, 0)).unwrap();
        assert!(is_synced(), "the first ones make the files");
    }
    for written in 4..=5 {
        files.write(&text(written, 0)).unwrap();
        assert!(!is_synced(), "the names wait");
        let newest = machine.0.borrow().seen_by_kubelet().map(number);
        assert_eq!(newest, Some(Ok(written)), "and are seen by a process that takes over");
    }
    files.write(&text(6, 0)).unwrap();
    assert_eq!(machine.0.borrow().durable_names.len(), 2, "no spare was free before the names were synced");
    machine.clone().sync_names().unwrap();
    files.synced(files.exchanges());
    files.write(&text(7, 0)).unwrap();
    assert!(!is_synced(), "somebody else did it");
    let (mut files, found) = Files::open(machine.clone()).unwrap();
    assert_eq!(number(&found.unwrap()), Ok(7));
    files.write(&text(8, 0)).unwrap();
    assert!(!is_synced(), "also the first one of a process that finds both");
}

/// A spare that is left over from the time before a kubelet is never taken for something newer, and neither is one beside a
/// checkpoint that a person has removed.
#[test]
fn a_spare_counts_only_beside_a_checkpoint_of_ours() {
    let machine = Shared::new(Dice::of(1), Mutant::None, true);
    let open = || Files::open(machine.clone());
    let (mut files, _) = open().unwrap();
    for written in 1..=3 {
        files.write(&text(written, 0)).unwrap();
    }
    machine.0.borrow_mut().write_as_kubelet(&text(9, 0));
    assert_eq!(number(&open().unwrap().1.unwrap()), Ok(9));
    machine.0.borrow_mut().names[0] = None;
    let (mut files, found) = open().unwrap();
    assert_eq!(found, None, "nothing is prepared");
    files.write(&text(10, 0)).unwrap();
    files.write(&text(11, 0)).unwrap();
    // Damaged: the older text beside it is not taken for it.
    let file = machine.0.borrow().names[0].unwrap();
    machine.0.borrow_mut().files[file].0[20] = b'!';
    let refused = open().map(|(_, found)| found);
    assert!(matches!(refused, Err(FilesError::Checkpoint(_))), "{refused:?}");
}
