//! The calls of rlx.v1.Backend: spec/protocol.md, section 6.

use crate::backend::{Backend, DeviceType};
use crate::error::{Code, Error};
use crate::memory::{self, Io, NewWeights, Region, Weights};
use crate::program::Program;
use crate::proto::rlx::{self, change_state_request::Change};
use crate::run::{Caller, Executable, State, States, Time, lock};
use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

pub const MAX_CHUNK: usize = 64 << 10;
pub const MAX_PROGRAM: usize = 384 << 20;
pub const MAX_STREAMED: usize = 4 << 30;
const MAX_LOADED: usize = 64;
const MAX_STATES: usize = 1024;

/// A session: the loaded programs and the memory that runs share.
pub struct Session {
    pub backend: Backend,
    pub region: Option<Region>,
    pub direct: bool,
    artifact: Option<File>,
    new_weights: Option<NewWeights>,
    loaded: Mutex<(u64, HashMap<u64, Arc<Executable>>)>, // and the newest number
    turn: Mutex<Turn>,
    // Size of the shared region, once it is mapped; separate from turn, because a program may be loaded during a run.
    io_size: Mutex<Option<usize>>,
    cancelled: AtomicI64, // the newest cancelled generation
}

/// What one run, or one call for a state, uses exclusively.
#[derive(Default)]
pub struct Turn {
    io: Option<Io>, // the shared region, once it is mapped
    states: States,
    last: u64,
}

impl Session {
    pub fn new(
        backend: Backend,
        region: Option<Region>,
        artifact: Option<File>,
        new_weights: Option<NewWeights>,
        direct: bool,
    ) -> Session {
        let (loaded, turn, io_size) = Default::default();
        let cancelled = AtomicI64::new(0);
        Session { backend, region, artifact, new_weights, direct, loaded, turn, io_size, cancelled }
    }

    pub fn info(&self) -> Result<rlx::InfoReply, Error> {
        let b = &self.backend;
        if b.devices.is_empty() {
            return Err(Error::new(Code::Unavailable, "it has no devices").about(&b.name));
        }
        let device = |d: &crate::Device| rlx::Device {
            id: d.id.clone(),
            name: d.name.clone(),
            r#type: match d.kind {
                DeviceType::Cpu => "cpu",
                DeviceType::Gpu => "gpu",
                DeviceType::Npu => "npu",
                DeviceType::Software => "software",
            }
            .into(),
            memory: d.memory,
            features: d.features.clone(),
        };
        Ok(rlx::InfoReply {
            name: b.name.clone(),
            version: b.version.clone(),
            devices: b.devices.iter().map(device).collect(),
            max_alloc: b.max_alloc,
            target: b.target(),
            direct_runs: self.direct,
            sets_weights: true,
            ..Default::default()
        })
    }

    fn check_device(&self, id: &str) -> Result<(), Error> {
        let ids: Vec<_> = self.backend.devices.iter().map(|d| d.id.as_str()).collect();
        if id.is_empty() || ids.contains(&id) {
            return Ok(());
        }
        let e = Error::new(Code::Unavailable, format!("device {id:?}: it has {}", ids.join(", ")));
        Err(e.about(&self.backend.name).hint("leave --device out"))
    }

    /// Checks a header and returns the sizes in bytes of the program and of the weights that follow.
    pub fn check_load(&self, h: &rlx::LoadHeader) -> Result<(usize, usize), Error> {
        let w = h.weights.clone().unwrap_or_default();
        let (program, weights) =
            (usize::try_from(h.program_size).unwrap_or(0), usize::try_from(w.size).unwrap_or(usize::MAX));
        if program == 0
            || program > MAX_PROGRAM
            || weights > (if w.mapped { isize::MAX as usize } else { MAX_STREAMED })
        {
            return Err(Error::refused(format!("load: a program of {} bytes, weights of {}", h.program_size, w.size)));
        }
        if h.io_shared != self.region.is_some()
            || h.io_size < 0
            || self.region.is_none() && h.io_size != 0
            || h.threads < 0
        {
            let found = format!("load: io_shared is {}, io_size {} and threads {}", h.io_shared, h.io_size, h.threads);
            return Err(Error::refused(format!("{found}; region inherited: {}", self.region.is_some())));
        }
        self.check_device(&h.device)?;
        if !matches!(h.precision.as_str(), "" | "f32") {
            return Err(Error::unsupported(format!("does not compute in {}; it has f32", h.precision))
                .about(&self.backend.name));
        }
        Ok((program, if w.mapped { 0 } else { weights }))
    }

    /// Loads a program once all its parts have arrived.
    pub fn load(&self, h: &rlx::LoadHeader, program: &[u8], streamed: Weights) -> Result<rlx::LoadReply, Error> {
        let digest = ring::digest::digest(&ring::digest::SHA256, program);
        if digest.as_ref() != h.program_sha256 {
            return Err(Error::refused("load: the program has another digest than announced"));
        }
        let from_artifact = h.weights.as_ref().filter(|w| w.mapped && w.size > 0);
        let mapped = from_artifact.is_some() && self.new_weights.is_some();
        let weights = match from_artifact {
            None => streamed,
            Some(w) => {
                let Some(file) = &self.artifact else {
                    return Err(Error::refused("load: the weights are in an artifact, but none was inherited"));
                };
                let offset =
                    u64::try_from(w.offset).map_err(|_| Error::refused(format!("load: weights at {}", w.offset)))?;
                Weights::map(file, offset, w.size as usize)?
            }
        };
        let p = Program::decode(program, weights.bytes().len())?;
        let io = match &self.region {
            None => Some(Io::private(p.io)?),
            Some(region) => {
                self.map_io(region, h.io_size as usize, p.io)?;
                None
            }
        };
        let e = Executable::new(&self.backend, p, weights, mapped, io)?;
        let kernels = e.ops().into_iter().map(|op| rlx::Kernel { op: op.into(), native: true }).collect();
        let memory = i64::try_from(e.memory() + self.backend.scratch).unwrap_or(i64::MAX);
        let mut loaded = lock(&self.loaded);
        if loaded.1.len() >= MAX_LOADED {
            return Err(Error::out_of_memory(format!("{MAX_LOADED} programs are loaded; unload one")));
        }
        loaded.0 += 1;
        let number = loaded.0;
        loaded.1.insert(number, Arc::new(e));
        Ok(rlx::LoadReply { executable: number, kernels, memory })
    }

    /// Maps the shared region when the first program is loaded, which fixes its size.
    fn map_io(&self, region: &Region, size: usize, needed: usize) -> Result<(), Error> {
        let mut mapped = lock(&self.io_size);
        let have = match *mapped {
            Some(have) => have,
            None => {
                // Nobody holds the turn for long, because no program is loaded yet.
                let have = lock(&self.turn).io.insert(region.map(size)?).size();
                *mapped.insert(have)
            }
        };
        match size == have && needed <= have {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "load: io_size is {size}, and the program needs {needed}; the shared region has {have}"
            ))),
        }
    }

    pub fn find(&self, number: u64) -> Result<Arc<Executable>, Error> {
        lock(&self.loaded)
            .1
            .get(&number)
            .cloned()
            .ok_or_else(|| Error::refused(format!("executable {number} is not loaded")))
    }

    fn turn(&self) -> Result<MutexGuard<'_, Turn>, Error> {
        match self.turn.try_lock() {
            Ok(t) => Ok(t),
            Err(TryLockError::Poisoned(t)) => Ok(t.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::refused("another run, or a call for a state, is in progress")),
        }
    }

    /// The step times of a run, if it was profiled and is the last one of the executable.
    pub fn times(&self, number: u64, generation: i64) -> Result<Vec<Time>, Error> {
        let _turn = self.turn()?;
        let times = self.find(number)?.times(generation);
        times.ok_or_else(|| Error::refused(format!("stats: run {generation} has no times")))
    }

    /// Runs a program. When it returns, the next run may begin.
    pub fn run(&self, h: &rlx::RunHeader, caller: &mut dyn Caller) -> Result<rlx::Done, Error> {
        let mut turn = self.turn()?;
        let e = self.find(h.executable)?;
        let mut caller = Announced { session: self, generation: h.generation, caller };
        if let Some(r) = &self.region {
            r.begin(h.generation);
        }
        let Turn { io, states, .. } = &mut *turn;
        e.run(h, io.as_mut(), states, &mut caller)
    }

    pub fn cancel(&self, generation: i64) {
        self.cancelled.fetch_max(generation, Ordering::SeqCst);
    }

    pub fn unload(&self, number: u64) -> Result<(), Error> {
        let _turn = self.turn()?;
        match lock(&self.loaded).1.remove(&number) {
            Some(_) => Ok(()),
            None => Err(Error::refused(format!("executable {number} is not loaded"))),
        }
    }

    /// Checks a request to replace weights and returns the number of bytes that follow.
    pub fn check_weights(&self, h: &rlx::SetWeightsHeader) -> Result<usize, Error> {
        let total = self.find(h.executable)?.check_weights(h)?;
        match h.mapped {
            true => Ok(0),
            false if total <= MAX_STREAMED => Ok(total),
            false => Err(Error::refused(format!("weights: {total} bytes in chunks; at most {MAX_STREAMED}"))),
        }
    }

    /// Replaces weights once all their bytes have arrived.
    pub fn set_weights(&self, h: &rlx::SetWeightsHeader, streamed: &[u8]) -> Result<(), Error> {
        let _turn = self.turn()?;
        let e = self.find(h.executable)?;
        if let Some(memory) = self.new_weights.as_ref().filter(|_| h.mapped) {
            return e.set_weights(&h.params, |into, at| memory.read(into, at));
        }
        let mut rest = streamed;
        e.set_weights(&h.params, |into, _| {
            into.copy_from_slice(rest.split_off(..into.len()).expect("it is as long"));
            Ok(())
        })
    }

    pub fn make_state(&self, r: &rlx::MakeStateRequest) -> Result<u64, Error> {
        self.check_device(&r.device)?;
        let size = usize::try_from(r.size).map_err(|_| Error::refused(format!("a state of {} bytes", r.size)))?;
        let mut turn = self.turn()?;
        if turn.states.len() >= MAX_STATES {
            return Err(Error::out_of_memory(format!("there are {MAX_STATES} states; drop one")));
        }
        turn.last += 1;
        let number = turn.last;
        turn.states.insert(number, State { map: memory::block(size, "a state")?, size });
        Ok(number)
    }

    pub fn change_state(&self, r: &rlx::ChangeStateRequest) -> Result<(), Error> {
        let mut turn = self.turn()?;
        let states = &mut turn.states;
        let missing = |n: u64| Error::refused(format!("there is no state {n}"));
        let size = states.get(&r.state).ok_or_else(|| missing(r.state))?.size;
        match r.change {
            Some(Change::Clear(_)) => states.get_mut(&r.state).ok_or_else(|| missing(r.state))?.bytes().fill(0),
            Some(Change::Drop(_)) => drop(states.remove(&r.state)),
            Some(Change::Copy(from)) if from == r.state => {}
            Some(Change::Copy(from)) => match states.get_disjoint_mut([&r.state, &from]) {
                [Some(to), Some(from)] if from.size == size => to.bytes().copy_from_slice(from.bytes()),
                [_, Some(from)] => {
                    return Err(Error::bad_input(format!("a state of {} bytes is copied to one of {size}", from.size)));
                }
                _ => return Err(missing(from)),
            },
            None => return Err(Error::refused(format!("state {}: the request has no change", r.state))),
        }
        Ok(())
    }

    /// Calls f with a range of a state's bytes.
    pub fn with_state<T>(
        &self,
        r: &rlx::StateRange,
        f: impl FnOnce(&mut [u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut turn = self.turn()?;
        let Some(state) = turn.states.get_mut(&r.state) else {
            return Err(Error::refused(format!("there is no state {}", r.state)));
        };
        let (whole, refused) =
            (state.size, || Error::refused(format!("{} bytes at {} of a state of {}", r.size, r.offset, state.size)));
        match (usize::try_from(r.offset), usize::try_from(r.size)) {
            (Ok(offset), Ok(size)) if offset <= whole && size <= whole - offset => {
                f(&mut state.bytes()[offset..][..size])
            }
            _ => Err(refused()),
        }
    }
}

/// A caller that also announces steps in the region and checks for Cancel.
struct Announced<'a> {
    session: &'a Session,
    generation: i64,
    caller: &'a mut dyn Caller,
}

impl Caller for Announced<'_> {
    fn input(&mut self, index: usize, into: &mut [u8]) -> Result<(), Error> {
        self.caller.input(index, into)
    }

    fn step(&mut self, started: usize) {
        match &self.session.region {
            Some(r) => r.step(started),
            None => self.caller.step(started),
        }
    }

    fn cancelled(&self) -> bool {
        self.generation <= self.session.cancelled.load(Ordering::SeqCst) || self.caller.cancelled()
    }

    fn dump(&mut self, node: usize, shape: &[usize], data: &[u8]) -> Result<(), Error> {
        self.caller.dump(node, shape, data)
    }

    fn output(&mut self, index: usize, data: &[u8]) -> Result<(), Error> {
        self.caller.output(index, data)
    }
}
