//! Loaded programs and their runs.

use crate::backend::Backend;
use crate::dims::Sizes;
use crate::error::{Code, Error};
use crate::memory::{self, Copies, Io, Place, Spaces, Weights};
use crate::program::{Bound, Program};
use crate::proto::rlx::{Done, Range, RunHeader, SetWeightsHeader, Transfer};
use crate::steps::Steps;
use crate::view::has_nan;
use memmap2::MmapMut;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of cached bindings. Callers often alternate between a few sizes.
const RECENT: usize = 8;

/// The most entries of a list in a message.
const MAX_LISTED: usize = 4096;

/// After this time a step that is a loop reports that it goes on.
const PROGRESS: Duration = Duration::from_millis(200);

/// States, by number.
pub type States = HashMap<u64, State>;

/// Memory that outlives runs.
pub struct State {
    pub map: MmapMut,
    pub size: usize,
}

impl State {
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[..self.size]
    }
}

/// Locks a mutex and ignores poisoning: nothing in this crate panics while it changes the data of a mutex.
pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loaded program with its memory.
pub struct Executable {
    pub program: Arc<Program>,
    steps: Steps,
    weights: Mutex<Weights>,
    mapped: bool, // new weights are in the memory that was inherited for them
    work: Mutex<Work>,
    times: Mutex<(i64, Vec<Time>)>, // of the last run, with its generation
}

/// What runs write.
struct Work {
    arena: MmapMut,
    io: Option<Io>, // if there is no shared region
    copies: Copies,
    recent: VecDeque<(Sizes, Arc<Bound>)>,
}

/// When a step ran, in ns since the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    pub node: usize,
    pub start: i64,
    pub time: i64,
}

/// The source and destination of a run's tensors, and the receiver of its progress. Without a region it also transfers
/// inputs and outputs.
pub trait Caller {
    /// Fills an input.
    fn input(&mut self, index: usize, into: &mut [u8]) -> Result<(), Error>;
    /// Step `started` begins, counted from 1. After the last step it is called once more with the number of all steps.
    fn step(&mut self, started: usize);
    /// Whether the run should stop.
    fn cancelled(&self) -> bool;
    /// The value of a node.
    fn dump(&mut self, node: usize, shape: &[usize], data: &[u8]) -> Result<(), Error>;
    /// The run has succeeded; this is one of its outputs.
    fn output(&mut self, index: usize, data: &[u8]) -> Result<(), Error>;
}

impl Executable {
    /// Prepares a program. `io` is the IO space if there is no shared region.
    /// `mapped` tells whether new weights are in the memory that was inherited for them.
    pub fn new(
        backend: &Backend,
        program: Program,
        weights: Weights,
        mapped: bool,
        io: Option<Io>,
    ) -> Result<Executable, Error> {
        let program = Arc::new(program);
        let steps = Steps::new(backend, program.clone())?;
        let arena = memory::block(program.arena, "an arena").map_err(|e| e.about(&backend.name))?;
        let work = Work { arena, io, copies: Copies::default(), recent: VecDeque::new() };
        let weights = Mutex::new(weights);
        Ok(Executable { program, steps, weights, mapped, work: Mutex::new(work), times: Mutex::default() })
    }

    /// Checks a request to replace weights and returns their number of bytes.
    pub fn check_weights(&self, h: &SetWeightsHeader) -> Result<usize, Error> {
        let places = &h.params;
        let param = |r: &Range| {
            let at = |n: &crate::program::Node| n.op == "param" && n.size > 0;
            self.program.nodes.iter().any(|n| at(n) && n.offset as i64 == r.offset && n.size as i64 == r.size)
        };
        let ascend = places.windows(2).all(|w| w[0].offset < w[1].offset);
        if places.is_empty() || places.len() > MAX_LISTED || !ascend || !places.iter().all(param) {
            let want = "want the places of params, by ascending offset, each once";
            return Err(Error::refused(format!("weights: {} params; {want}", places.len())));
        }
        if h.mapped != self.mapped {
            return Err(Error::refused(format!("weights: mapped is {}; want {}", h.mapped, self.mapped)));
        }
        Ok(places.iter().map(|r| r.size as usize).sum())
    }

    /// Replaces weights. `read` reads those at an offset.
    pub fn set_weights(
        &self,
        places: &[Range],
        mut read: impl FnMut(&mut [u8], usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut weights = lock(&self.weights);
        places.iter().try_for_each(|r| {
            let at = r.offset as usize;
            read(&mut weights.bytes_mut()[at..at + r.size as usize], at)
        })
    }

    /// The distinct kernels of the program, by name.
    pub fn ops(&self) -> Vec<&str> {
        let mut ops: Vec<_> = self.program.steps.iter().map(|s| self.program.nodes[*s].kernel.as_str()).collect();
        ops.sort();
        ops.dedup();
        ops
    }

    /// An upper bound of the memory for copies of operands, in bytes.
    pub fn memory(&self) -> usize {
        let mut largest = Vec::new(); // by position: the largest operand of any step
        self.steps.each(&mut |p| {
            let nodes = &p.nodes;
            let place = |n: usize| Place { space: nodes[n].space, offset: nodes[n].offset, bytes: nodes[n].size };
            for n in p.steps.iter().map(|s| &nodes[*s]) {
                let shared = |x: usize| n.results.iter().any(|r| place(*r).overlaps(place(x)));
                for (k, x) in n.inputs.iter().enumerate().filter(|(_, x)| shared(**x)) {
                    largest.resize(largest.len().max(k + 1), 0);
                    largest[k] = nodes[*x].size.max(largest[k]);
                }
            }
        });
        largest.iter().sum()
    }

    /// The step times of a run, if it was profiled and is the last one.
    pub fn times(&self, generation: i64) -> Option<Vec<Time>> {
        let t = lock(&self.times);
        (generation > 0 && t.0 == generation).then(|| t.1.clone())
    }

    /// Runs the program. `io` is the shared region, if there is one. The caller must hold the turn.
    pub fn run(
        &self,
        h: &RunHeader,
        io: Option<&mut Io>,
        states: &mut States,
        caller: &mut dyn Caller,
    ) -> Result<Done, Error> {
        let (p, mut work) = (&self.program, lock(&self.work));
        let bound = self.check(h, &mut work)?;
        let Work { arena, io: own, copies, .. } = &mut *work;
        let chunks = own.is_some();
        let Some(io) = io.or(own.as_mut()) else { return Err(Error::bug("there is no IO space")) };
        let place = |n: usize| self.steps.place(&bound, n);
        let transfers = Transfers::check(self, h, &bound, states)?;
        for (i, n) in
            p.inputs.iter().enumerate().filter(|(i, _)| chunks && transfers.feeds.iter().all(|f| f.tensor != *i))
        {
            caller.input(i, &mut io.bytes()[place(*n).range()])?;
        }
        for f in &transfers.feeds {
            let from = &states.get_mut(&f.state).expect("checked").bytes()[f.offset..];
            io.bytes()[place(f.node).range()].copy_from_slice(&from[..place(f.node).bytes]);
        }

        let wanted: Vec<bool> = (0..p.outputs.len()).map(|i| !h.unwanted.contains(&(i as i32))).collect();
        let kept = |i: usize| transfers.keeps.iter().any(|k| k.tensor == i);
        let dumps: Vec<usize> = h.dump.iter().map(|n| *n as usize).collect();
        let mut dumped = vec![false; p.nodes.len()];
        dumps.iter().for_each(|n| dumped[*n] = true);
        let needed: Vec<bool> = wanted.iter().enumerate().map(|(i, w)| *w || kept(i)).collect();
        let steps = if h.unwanted.is_empty() { vec![true; p.steps.len()] } else { p.needed(&needed, &dumps) };

        let began = Instant::now();
        let state = states.get_mut(&h.state).map(State::bytes).unwrap_or_default();
        let weights = lock(&self.weights);
        let mut spaces = Spaces { weights: weights.bytes(), arena, io: io.bytes(), state };
        let mut times = Vec::new();
        for (i, step) in p.steps.iter().enumerate().filter(|(i, _)| steps[*i]) {
            going_on(caller)?;
            caller.step(i + 1);
            let (node, start) = (&p.nodes[*step], began.elapsed());
            let mut reported = start;
            let mut between = || {
                if began.elapsed() - reported > PROGRESS {
                    reported = began.elapsed();
                    caller.step(i + 1);
                }
                going_on(caller)
            };
            let at = |e: Error| e.at(i + 1, &node.op, 0);
            self.steps.run(i, &bound, &mut spaces, copies, &mut between).map_err(at)?;
            times.push(Time {
                node: *step,
                start: start.as_nanos() as i64,
                time: (began.elapsed() - start).as_nanos() as i64,
            });
            for (k, r) in node.results.iter().enumerate() {
                let bytes = spaces.bytes(place(*r));
                if h.check_nan && p.nodes[*r].dtype.is_some_and(|d| has_nan(d, bytes)) {
                    return Err(Error::new(Code::FoundNaN, "its result holds a NaN").at(i + 1, &node.op, k));
                }
                if dumped[*r] {
                    caller.dump(*r, &bound.values[*r].shape, bytes)?;
                }
            }
        }
        caller.step(p.steps.len());
        for k in &transfers.keeps {
            let (data, to) = (&io.bytes()[place(k.node).range()], states.get_mut(&k.state).expect("checked"));
            to.bytes()[k.offset..][..data.len()].copy_from_slice(data);
        }
        let total = began.elapsed().as_nanos() as i64;
        for (i, n) in p.outputs.iter().enumerate().filter(|(i, _)| chunks && wanted[*i]) {
            caller.output(i, &io.bytes()[place(*n).range()])?;
        }
        let timed = if h.profile { (h.generation, times) } else { (0, Vec::new()) };
        let steps = timed.1.len() as i32;
        *lock(&self.times) = timed;
        Ok(Done {
            generation: h.generation,
            total_ns: total.max(1),
            peak_rss: peak_rss(),
            first_nan: -1,
            steps,
            ..Default::default()
        })
    }

    /// Checks a header and returns the sizes of the run.
    fn check(&self, h: &RunHeader, work: &mut Work) -> Result<Arc<Bound>, Error> {
        let p = &self.program;
        if h.generation <= 0 {
            return Err(Error::refused(format!("run: generation {} is not positive", h.generation)));
        }
        let sizes: Sizes = h.syms.iter().map(|(name, size)| (name.clone(), *size)).collect();
        let bound = match work.recent.iter().find(|(s, _)| *s == sizes) {
            Some((_, b)) => b.clone(),
            None => {
                let b = Arc::new(p.bind(&sizes)?);
                work.recent.truncate(RECENT - 1);
                work.recent.push_front((sizes, b.clone()));
                b
            }
        };
        let as_placed = |got: &[Range], want: &[usize]| {
            let range = |n: &usize| (p.nodes[*n].offset as i64, bound.values[*n].bytes as i64);
            got.iter().map(|r| (r.offset, r.size)).eq(want.iter().map(range))
        };
        if !as_placed(&h.inputs, &p.inputs) || !as_placed(&h.outputs, &p.outputs) {
            return Err(Error::refused("run: the ranges of inputs or outputs are not those that the program computes"));
        }
        let made = |n: &i32| usize::try_from(*n).is_ok_and(|n| n < p.nodes.len() && p.is_made(n));
        if let Some(n) = h.dump.iter().find(|n| !made(n)) {
            let all = p.nodes.len();
            return Err(Error::refused(format!(
                "run: dump of node {n}; it is not one of the {all} nodes, or no step computes it"
            )));
        }
        if h.feeds.len() > MAX_LISTED || h.keeps.len() > MAX_LISTED {
            let (feeds, keeps) = (h.feeds.len(), h.keeps.len());
            return Err(Error::refused(format!("run: {feeds} feeds, {keeps} keeps; at most {MAX_LISTED}")));
        }
        let (list, most) = (&h.unwanted, p.outputs.len());
        if !list.is_sorted_by(|a, b| a < b) || list.iter().any(|i| *i < 0 || *i as usize >= most) {
            return Err(Error::refused(format!("run: unwanted outputs are {list:?}; the program has {most}")));
        }
        Ok(bound)
    }
}

/// Inputs that are read from states, and outputs that are stored in them.
struct Transfers {
    feeds: Vec<Bond>,
    keeps: Vec<Bond>,
}

struct Bond {
    tensor: usize,
    node: usize,
    state: u64,
    offset: usize,
}

impl Transfers {
    fn check(e: &Executable, h: &RunHeader, bound: &Bound, states: &States) -> Result<Transfers, Error> {
        let p = &e.program;
        let size = |state: u64| match states.get(&state) {
            Some(s) => Ok(s.size),
            None => Err(Error::refused(format!("there is no state {state}"))),
        };
        let state = if h.state == 0 { 0 } else { size(h.state)? };
        if state < p.state {
            return Err(Error::bad_input(format!("a state of {state} bytes; it needs {}", p.state)).about(&p.method));
        }
        let bonds = |list: &[Transfer], nodes: &[usize], kind: &str| {
            let mut out: Vec<Bond> = Vec::new();
            for t in list {
                let tensor = t.tensor as usize;
                let Some(node) = nodes.get(tensor).copied().filter(|_| t.tensor >= 0) else {
                    return Err(Error::bad_input(format!(
                        "run: {kind} {} of {} is bound to a state",
                        t.tensor,
                        nodes.len()
                    )));
                };
                let (bytes, whole) = (bound.values[node].bytes, size(t.state)?);
                match usize::try_from(t.offset) {
                    Ok(o) if o.is_multiple_of(256) && o <= whole && bytes <= whole - o => {
                        out.push(Bond { tensor, node, state: t.state, offset: o });
                    }
                    _ => {
                        return Err(Error::bad_input(format!(
                            "run: {kind} {tensor} of {bytes} bytes at {} of a state of {whole}",
                            t.offset
                        )));
                    }
                }
            }
            Ok(out)
        };
        let t =
            Transfers { feeds: bonds(&h.feeds, &p.inputs, "input")?, keeps: bonds(&h.keeps, &p.outputs, "output")? };
        let mut fed: Vec<usize> = t.feeds.iter().map(|f| f.tensor).collect();
        fed.sort();
        if fed.windows(2).any(|w| w[0] == w[1]) {
            return Err(Error::bad_input("run: an input is fed twice"));
        }
        let mut spans: Vec<_> =
            t.keeps.iter().map(|k| (k.state, k.offset, k.offset + bound.values[k.node].bytes)).collect();
        spans.sort();
        if spans.windows(2).any(|w| w[0].0 == w[1].0 && w[1].1 < w[0].2) {
            return Err(Error::bad_input("run: outputs that are kept overlap in a state"));
        }
        Ok(t)
    }
}

/// An error if the run should stop.
fn going_on(caller: &dyn Caller) -> Result<(), Error> {
    if caller.cancelled() { Err(Error::new(Code::Cancelled, "the run was cancelled")) } else { Ok(()) }
}

/// The peak resident size of this process in bytes; 0 if the system does not report it in a file.
fn peak_rss() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<i64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
