//! Multi-Instance GPU (MIG): a card split into partitions that do not disturb each other.

use nvml_wrapper_sys::bindings as sys;

use crate::{
    Card, Error,
    card::Handle,
    library::{call, text_in},
};

#[allow(clippy::cast_possible_truncation, reason = "a structure of some hundred bytes")]
/// Version 2 of the structure, with a name in it: its size and the version's number, as NVML's header computes it.
const PROFILE_INFO_V2: u32 = size_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>() as u32 | 2 << 24;
/// Compute instances of a GPU instance that are looked at: no card has more slices.
const COMPUTE_INSTANCES_MAX: usize = 16;
/// Places of one profile on a card.
const PLACEMENTS_MAX: u8 = 64;
/// MIG is on.
const ON: u32 = sys::NVML_DEVICE_MIG_ENABLE;

/// A kind of partition that a card can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// NVML's number for it on this card.
    pub id: u32,
    /// `1g.18gb`, `1g.18gb+me`.
    pub name: String,
    /// Slices of compute.
    pub slices: u32,
    /// How many there can be at the same time.
    pub count_max: u32,
    /// In MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Engines for copies.
    pub copy_engines: u32,
    /// Engines for decoding video.
    pub decoders: u32,
    /// Engines for encoding video.
    pub encoders: u32,
    /// Engines for pictures.
    pub jpeg_engines: u32,
    /// Engines for optical flow.
    pub ofa_engines: u32,
    /// Where it can be.
    pub placements: Vec<Placement>,
}

/// Slices of memory, from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The first.
    pub start: u32,
    /// How many.
    pub size: u32,
}

/// A partition that there is: a GPU instance with one compute instance that takes all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// `MIG-…`.
    pub uuid: String,
    /// The GPU instance.
    pub gpu_instance: u32,
    /// The compute instance.
    pub compute_instance: u32,
    /// The profile of the GPU instance.
    pub profile: u32,
    /// Where it is.
    pub placement: Placement,
}

impl Card {
    /// Whether the card is split into partitions; `None` where it cannot be.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn is_partitioned(&self) -> Result<Option<bool>, Error> {
        let (mut current, mut pending) = (0, 0);
        match call!(self.nvml.shared, nvmlDeviceGetMigMode, self.handle.0, &raw mut current, &raw mut pending)
        {
            Ok(()) => Ok(Some(current == ON)),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Splits the card, or makes it whole. It must not be in use.
    ///
    /// # Errors
    /// When NVML refuses, or wants a reset first.
    pub fn set_partitioned(&self, on: bool) -> Result<(), Error> {
        let mut status = 0;
        call!(self.nvml.shared, nvmlDeviceSetMigMode, self.handle.0, u32::from(on), &raw mut status)?;
        Error::check("nvmlDeviceSetMigMode", status)
    }

    /// The kinds of partitions that the card can have; none while it is whole, on some cards.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn profiles(&self) -> Result<Vec<Profile>, Error> {
        let mut profiles = Vec::new();
        for number in 0..sys::NVML_GPU_INSTANCE_PROFILE_COUNT {
            match self.profile(number) {
                Ok(profile) => profiles.push(profile),
                Err(error) if error.is_unsupported() || error.code == INVALID_ARGUMENT => {}
                Err(error) => return Err(error),
            }
        }
        Ok(profiles)
    }

    fn profile(&self, number: u32) -> Result<Profile, Error> {
        let shared = &self.nvml.shared;
        // SAFETY: a structure of numbers and bytes, for which zero is a value.
        let mut info: sys::nvmlGpuInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
        info.version = PROFILE_INFO_V2;
        call!(shared, nvmlDeviceGetGpuInstanceProfileInfoV, self.handle.0, number, &raw mut info)?;
        let mut places = [sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 }; PLACEMENTS_MAX as usize];
        let mut count = u32::from(PLACEMENTS_MAX);
        call!(
            shared,
            nvmlDeviceGetGpuInstancePossiblePlacements_v2,
            self.handle.0,
            info.id,
            places.as_mut_ptr(),
            &raw mut count
        )?;
        let places = places.iter().take(count as usize);
        Ok(Profile {
            id: info.id,
            name: text_in(&info.name).trim_start_matches("MIG ").to_owned(),
            slices: info.sliceCount,
            count_max: info.instanceCount,
            memory_mib: info.memorySizeMB,
            multiprocessors: info.multiprocessorCount,
            copy_engines: info.copyEngineCount,
            decoders: info.decoderCount,
            encoders: info.encoderCount,
            jpeg_engines: info.jpegCount,
            ofa_engines: info.ofaCount,
            placements: places.map(|place| Placement { start: place.start, size: place.size }).collect(),
        })
    }

    /// The partitions that there are.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn partitions(&self) -> Result<Vec<Partition>, Error> {
        let shared = &self.nvml.shared;
        let mut count = 0;
        call!(shared, nvmlDeviceGetMaxMigDeviceCount, self.handle.0, &raw mut count)?;
        let mut partitions = Vec::new();
        for index in 0..count {
            let mut handle = Handle::null();
            match call!(shared, nvmlDeviceGetMigDeviceHandleByIndex, self.handle.0, index, &raw mut handle.0)
            {
                Err(error) if error.is_not_found() => continue,
                opened => opened?,
            }
            let part = Self { nvml: self.nvml.clone(), handle, index };
            partitions.push(self.partition(&part)?);
        }
        Ok(partitions)
    }

    fn partition(&self, part: &Self) -> Result<Partition, Error> {
        let shared = &self.nvml.shared;
        let (mut gpu_instance, mut compute_instance) = (0, 0);
        call!(shared, nvmlDeviceGetGpuInstanceId, part.handle.0, &raw mut gpu_instance)?;
        call!(shared, nvmlDeviceGetComputeInstanceId, part.handle.0, &raw mut compute_instance)?;
        let mut instance = std::ptr::null_mut();
        call!(shared, nvmlDeviceGetGpuInstanceById, self.handle.0, gpu_instance, &raw mut instance)?;
        let info = self.instance_info(instance)?;
        Ok(Partition {
            uuid: part.uuid()?,
            gpu_instance,
            compute_instance,
            profile: info.profileId,
            placement: Placement { start: info.placement.start, size: info.placement.size },
        })
    }

    fn instance_info(&self, instance: sys::nvmlGpuInstance_t) -> Result<sys::nvmlGpuInstanceInfo_t, Error> {
        let mut info = sys::nvmlGpuInstanceInfo_t {
            device: Handle::null().0,
            id: 0,
            profileId: 0,
            placement: sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 },
        };
        call!(self.nvml.shared, nvmlGpuInstanceGetInfo, instance, &raw mut info)?;
        Ok(info)
    }

    /// Makes a partition: a GPU instance of this profile at this place, with one compute instance that takes all of it. The instance
    /// is destroyed again when the rest fails.
    ///
    /// # Errors
    /// When NVML refuses: there is no room, or the card is whole.
    pub fn create_partition(&self, profile: &Profile, placement: Placement) -> Result<Partition, Error> {
        let place = sys::nvmlGpuInstancePlacement_t { start: placement.start, size: placement.size };
        let mut instance = std::ptr::null_mut();
        call!(
            self.nvml.shared,
            nvmlDeviceCreateGpuInstanceWithPlacement,
            self.handle.0,
            profile.id,
            &raw const place,
            &raw mut instance
        )?;
        let made = self.fill_instance(instance, profile);
        let found = made.and_then(|gpu_instance| {
            let all = self.partitions()?;
            let found = all.into_iter().find(|partition| partition.gpu_instance == gpu_instance);
            found.ok_or(Error::unknown("nvmlDeviceGetMigDeviceHandleByIndex"))
        });
        if found.is_err() {
            let _ = self.empty_instance(instance);
            let _ = call!(self.nvml.shared, nvmlGpuInstanceDestroy, instance);
        }
        found
    }

    /// Makes the compute instance that takes all of a GPU instance; gives the number of the latter.
    fn fill_instance(&self, instance: sys::nvmlGpuInstance_t, profile: &Profile) -> Result<u32, Error> {
        let shared = &self.nvml.shared;
        let whole = self.compute_profiles(instance).find(|info| info.sliceCount == profile.slices);
        let whole = whole.ok_or(Error::unknown("nvmlGpuInstanceGetComputeInstanceProfileInfo"))?.id;
        let mut compute = std::ptr::null_mut();
        call!(shared, nvmlGpuInstanceCreateComputeInstance, instance, whole, &raw mut compute)?;
        Ok(self.instance_info(instance)?.id)
    }

    /// The kinds of compute instances that a GPU instance can have.
    fn compute_profiles(
        &self,
        instance: sys::nvmlGpuInstance_t,
    ) -> impl Iterator<Item = sys::nvmlComputeInstanceProfileInfo_t> {
        (0..sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT).filter_map(move |number| {
            // SAFETY: a structure of numbers, for which zero is a value.
            let mut info: sys::nvmlComputeInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
            let asked = call!(
                self.nvml.shared,
                nvmlGpuInstanceGetComputeInstanceProfileInfo,
                instance,
                number,
                sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
                &raw mut info
            );
            asked.is_ok().then_some(info)
        })
    }

    /// Unmakes a partition. One that is not there is a success.
    ///
    /// # Errors
    /// When NVML refuses: it is in use.
    pub fn destroy_partition(&self, gpu_instance: u32) -> Result<(), Error> {
        let mut instance = std::ptr::null_mut();
        match call!(
            self.nvml.shared,
            nvmlDeviceGetGpuInstanceById,
            self.handle.0,
            gpu_instance,
            &raw mut instance
        ) {
            Err(error) if error.is_not_found() => return Ok(()),
            found => found?,
        }
        self.empty_instance(instance)?;
        call!(self.nvml.shared, nvmlGpuInstanceDestroy, instance)
    }

    fn empty_instance(&self, instance: sys::nvmlGpuInstance_t) -> Result<(), Error> {
        let shared = &self.nvml.shared;
        for info in self.compute_profiles(instance) {
            let mut computes = [std::ptr::null_mut(); COMPUTE_INSTANCES_MAX];
            let mut count = 0;
            call!(
                shared,
                nvmlGpuInstanceGetComputeInstances,
                instance,
                info.id,
                computes.as_mut_ptr(),
                &raw mut count
            )?;
            for compute in computes.iter().take(count as usize) {
                call!(shared, nvmlComputeInstanceDestroy, *compute)?;
            }
        }
        Ok(())
    }
}

/// A profile that this card's generation does not have.
const INVALID_ARGUMENT: u32 = sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
