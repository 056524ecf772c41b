//! A disk in memory that keeps only what was synced, and of the rest whatever it likes.
//!
//! Until a file is synced, a loss of power keeps any of its written sectors, in any order, under any length; until
//! the directory is synced, any of its name changes. Everything follows from a seed, so a failure can be repeated.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, DiskFile};
use crate::shared::lock;

const SECTOR_BYTES: usize = 512;

/// A disk that fails on request. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct FaultyDisk {
    world: Arc<Mutex<DiskState>>,
}

/// The behaviour of a disk at one step. Steps are the changes and syncs of files and names, counted from zero.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Stops for good: this and every later call fails.
    Crash,
    /// Refuses this one step. A refused write may have written a part; a refused sync may have kept any part, and
    /// forgets that the rest was ever to be kept.
    Refuse(io::ErrorKind),
}

#[derive(Debug, Clone, Default)]
struct DiskState {
    files: BTreeMap<u64, FileState>,
    names: BTreeMap<String, u64>,
    names_durable: BTreeMap<String, u64>,
    names_pending: Vec<NameChange>,
    steps: u64,
    faults: BTreeMap<u64, Fault>,
    crashed: bool,
    random: Random,
}

/// A file as programs see it, and what of it would survive.
#[derive(Debug, Clone, Default)]
struct FileState {
    content: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Size(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

impl FaultyDisk {
    /// An empty disk whose misdeeds follow from a seed.
    #[must_use]
    pub fn new(seed: u64) -> FaultyDisk {
        FaultyDisk::from_world(DiskState { random: Random(seed), ..DiskState::default() })
    }

    /// Plans a fault at a step.
    pub fn plan(&self, step: u64, fault: Fault) {
        lock(&self.world).faults.insert(step, fault);
    }

    /// Takes back what was planned for a step.
    pub fn unplan(&self, step: u64) {
        lock(&self.world).faults.remove(&step);
    }

    /// The steps taken so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        lock(&self.world).steps
    }

    /// The disk after a loss of power: all of what was synced, some of what was not.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> FaultyDisk {
        let mut random = Random(seed);
        let world = lock(&self.world).clone();
        let names = survive_names(world.names_durable, &world.names_pending, &mut random);
        let files = names
            .values()
            .filter_map(|id| Some((*id, world.files.get(id)?)))
            .map(|(id, file)| {
                let content = survive(&file.durable, &file.pending, &mut random);
                (id, FileState { durable: content.clone(), content, pending: Vec::new() })
            })
            .collect();
        FaultyDisk::from_world(DiskState {
            files,
            names_durable: names.clone(),
            names,
            random,
            ..DiskState::default()
        })
    }

    /// The disk after the process was killed: all that was written is there, but what was not synced can still be
    /// lost.
    #[must_use]
    pub fn after_kill(&self) -> FaultyDisk {
        let world = lock(&self.world).clone();
        FaultyDisk::from_world(DiskState { steps: 0, faults: BTreeMap::new(), crashed: false, ..world })
    }

    /// Flips one bit of a file without any error.
    pub fn flip_bit(&self, name: &str, bit: usize) {
        let mut world = lock(&self.world);
        let id = world.names.get(name).copied();
        if let Some(file) = id.and_then(|id| world.files.get_mut(&id)) {
            for bytes in [&mut file.content, &mut file.durable] {
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }

    /// The size of each file.
    #[must_use]
    pub fn sizes(&self) -> BTreeMap<String, usize> {
        let world = lock(&self.world);
        let size = |id: &u64| world.files.get(id).map_or(0, |file| file.content.len());
        world.names.iter().map(|(name, id)| (name.clone(), size(id))).collect()
    }

    fn from_world(world: DiskState) -> FaultyDisk {
        FaultyDisk { world: Arc::new(Mutex::new(world)) }
    }
}

impl DiskState {
    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(io::Error::other("crashed")) } else { Ok(()) }
    }

    /// Counts a step; tells whether it is to be refused, and how.
    fn step(&mut self) -> io::Result<Option<io::Error>> {
        self.alive()?;
        let step = self.steps;
        self.steps += 1;
        match self.faults.get(&step) {
            None => Ok(None),
            Some(Fault::Crash) => {
                self.crashed = true;
                Ok(Some(io::Error::other("crashed")))
            }
            Some(Fault::Refuse(kind)) => Ok(Some(io::Error::from(*kind))),
        }
    }

    /// A crash while names change may or may not have done it; a refusal has not.
    fn name_step(&mut self, change: NameChange) -> io::Result<()> {
        let refused = self.step()?;
        if refused.is_none() || self.crashed {
            apply_name(&mut self.names, &change);
            self.names_pending.push(change);
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let world = lock(&self.world);
        world.alive()?;
        Ok(world.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = lock(&self.world);
        let id = world.files.keys().next_back().map_or(0, |last| last + 1);
        world.files.insert(id, FileState::default());
        world.name_step(NameChange::Create(name.into(), id))?;
        Ok(Box::new(FaultyFile { disk: self.clone(), id }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let world = lock(&self.world);
        world.alive()?;
        let id = *world.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FaultyFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = lock(&self.world);
        world.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        world.name_step(NameChange::Rename(from.into(), to.into()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = lock(&self.world);
        world.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        world.name_step(NameChange::Remove(name.into()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = lock(&self.world);
        if let Some(refused) = world.step()? {
            return Err(refused);
        }
        let names = world.names.clone();
        world.names_durable = names;
        world.names_pending.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    id: u64,
}

impl FaultyFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut world = lock(&self.disk.world);
        let refused = world.step()?;
        let change = match change {
            Change::Write(offset, mut bytes) if refused.is_some() => {
                let written = world.random.below(bytes.len() + 1);
                if !world.crashed {
                    bytes.truncate(written);
                }
                Change::Write(offset, bytes)
            }
            other @ (Change::Write(..) | Change::Size(_)) => other,
        };
        let file = world.files.entry(self.id).or_default();
        apply(&mut file.content, &change);
        file.pending.push(change);
        refused.map_or(Ok(()), Err)
    }
}

impl DiskFile for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        let world = lock(&self.disk.world);
        world.alive()?;
        Ok(world.files.get(&self.id).map_or(0, |file| file.content.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let world = lock(&self.disk.world);
        world.alive()?;
        let content = world.files.get(&self.id).map_or(&[][..], |file| &file.content);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = content.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Change::Write(usize::try_from(offset).unwrap_or(usize::MAX), bytes.to_vec()))
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.change(Change::Size(usize::try_from(size).unwrap_or(usize::MAX)))
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = lock(&self.disk.world);
        let refused = world.step()?;
        if world.crashed {
            return refused.map_or(Ok(()), Err);
        }
        let DiskState { files, random, .. } = &mut *world;
        let file = files.entry(self.id).or_default();
        let pending = std::mem::take(&mut file.pending);
        if let Some(refused) = refused {
            file.durable = survive(&file.durable, &pending, random);
            return Err(refused);
        }
        for change in &pending {
            apply(&mut file.durable, change);
        }
        Ok(())
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, bytes) => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
        Change::Size(size) => content.resize(*size, 0),
    }
}

fn apply_name(names: &mut BTreeMap<String, u64>, change: &NameChange) {
    match change {
        NameChange::Create(name, id) => {
            names.insert(name.clone(), *id);
        }
        NameChange::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

/// How much of the unsynced survives.
#[derive(Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    /// Up to some point in the order of writing.
    Beginning,
    /// Any parts in any order.
    Anything,
}

impl Survival {
    fn draw(random: &mut Random) -> Survival {
        [Survival::Nothing, Survival::Everything, Survival::Beginning, Survival::Anything][random.below(4)]
    }
}

fn survive(durable: &[u8], pending: &[Change], random: &mut Random) -> Vec<u8> {
    let mut content = durable.to_vec();
    match Survival::draw(random) {
        Survival::Nothing => {}
        Survival::Everything => pending.iter().for_each(|change| apply(&mut content, change)),
        Survival::Beginning => {
            let whole = random.below(pending.len() + 1);
            pending[..whole].iter().for_each(|change| apply(&mut content, change));
            if let Some(Change::Write(offset, bytes)) = pending.get(whole) {
                let cut = random.below(bytes.len() + 1);
                apply(&mut content, &Change::Write(*offset, bytes[..cut].to_vec()));
            }
        }
        Survival::Anything => {
            for change in pending {
                match change {
                    Change::Write(offset, bytes) => survive_sectors(&mut content, *offset, bytes, random),
                    Change::Size(_) if random.below(2) == 0 => {}
                    Change::Size(_) => apply(&mut content, change),
                }
            }
            if random.below(2) == 0 && content.len() > durable.len() {
                content.truncate(durable.len() + random.below(content.len() - durable.len() + 1));
            }
        }
    }
    content
}

/// Writes each sector, or leaves it as it was, or (beyond the old end) as zeros.
fn survive_sectors(content: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Random) {
    let mut start = 0;
    while start < bytes.len() {
        let end = (start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES).min(bytes.len());
        match random.below(4) {
            0 | 1 => apply(content, &Change::Write(offset + start, bytes[start..end].to_vec())),
            2 => {}
            _ => content.resize(content.len().max(offset + end), 0),
        }
        start = end;
    }
}

fn survive_names(
    mut names: BTreeMap<String, u64>,
    pending: &[NameChange],
    random: &mut Random,
) -> BTreeMap<String, u64> {
    let survival = Survival::draw(random);
    let beginning = random.below(pending.len() + 1);
    for (nth, change) in pending.iter().enumerate() {
        let survives = match survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Beginning => nth < beginning,
            Survival::Anything => random.below(2) == 0,
        };
        if survives {
            apply_name(&mut names, change);
        }
    }
    names
}

/// A small generator of numbers that look random (splitmix64), so that every run can be repeated.
#[derive(Debug, Clone, Default)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, or zero if that is zero.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.draw() % limit).unwrap_or(0)
    }
}
