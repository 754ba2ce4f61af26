//! The steps of a program and how one runs. A step may be a loop, whose programs have steps of their own.

use crate::backend::{Backend, Kernel};
use crate::error::{Code, Error};
use crate::memory::{Copies, Place, Spaces};
use crate::program::{Bound, Loop, Node, Program};
use crate::view::{View, ViewMut};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// What a loop calls between two of its steps. An error ends the run.
pub type Between<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// The steps of a program.
pub struct Steps {
    pub program: Arc<Program>,
    list: Vec<Step>,
}

enum Step {
    Kernel(Arc<Kernel>),
    Loop(LoopStep),
}

impl Steps {
    /// Finds the kernel of each step, also in loops.
    pub fn new(backend: &Backend, program: Arc<Program>) -> Result<Steps, Error> {
        let kernels = backend.kernels(&program)?;
        let step = |(i, k): (&usize, Arc<Kernel>)| match (program.nodes[*i].op.as_str(), program.loops.get(i)) {
            ("loop", Some(l)) => Ok(Step::Loop(LoopStep::new(backend, &program.nodes[*i], l)?)),
            ("loop", None) => Err(Error::refused(format!("load: the loop {} has no programs", program.label(*i)))),
            _ => Ok(Step::Kernel(k)),
        };
        let list = program.steps.iter().zip(kernels).map(step).collect::<Result<_, _>>()?;
        Ok(Steps { program, list })
    }

    /// Calls f for this program and for those of its loops.
    pub fn each(&self, f: &mut dyn FnMut(&Program)) {
        f(&self.program);
        for s in &self.list {
            if let Step::Loop(l) = s {
                l.cond.iter().chain([&l.body]).for_each(|s| s.each(f));
            }
        }
    }

    /// The place of a value.
    pub fn place(&self, bound: &Bound, node: usize) -> Place {
        let n = &self.program.nodes[node];
        Place { space: n.space, offset: n.offset, bytes: bound.values[node].bytes }
    }

    /// Runs one step.
    pub fn run(
        &self,
        i: usize,
        bound: &Bound,
        spaces: &mut Spaces<'_>,
        copies: &mut Copies,
        between: Between<'_>,
    ) -> Result<(), Error> {
        match &self.list[i] {
            Step::Kernel(k) => self.call(i, k, bound, spaces, copies),
            Step::Loop(l) => {
                let node = self.program.steps[i];
                let n = &self.program.nodes[node];
                let places = |list: &[usize]| list.iter().map(|x| self.place(bound, *x)).collect::<Vec<_>>();
                let Some((cond, body)) = bound.loops.get(&node) else { return Err(Error::bug("a loop has no sizes")) };
                l.run(cond.as_ref(), body, &places(&n.inputs), &places(&n.results), spaces, copies, between)
            }
        }
    }

    /// Runs all steps of a program of a loop. An error names the step.
    fn iterate(
        &self,
        bound: &Bound,
        spaces: &mut Spaces<'_>,
        copies: &mut Copies,
        between: Between<'_>,
    ) -> Result<(), Error> {
        for (i, node) in self.program.steps.iter().enumerate() {
            between()?;
            let at =
                |e: Error| e.within(format_args!("{} {}", self.program.nodes[*node].op, self.program.label(*node)));
            self.run(i, bound, spaces, copies, between).map_err(at)?;
        }
        Ok(())
    }

    /// Calls the kernel of a step.
    fn call(
        &self,
        i: usize,
        kernel: &Kernel,
        bound: &Bound,
        spaces: &mut Spaces<'_>,
        copies: &mut Copies,
    ) -> Result<(), Error> {
        let p = &self.program;
        let node = &p.nodes[p.steps[i]];
        let place = |n: &usize| self.place(bound, *n);
        let dtype = |n: usize| p.nodes[n].dtype.ok_or_else(|| Error::bug("a node has no value"));
        let shape = |n: usize| bound.values[n].shape.as_slice();
        let results: Vec<Place> = node.results.iter().map(place).collect();
        let mut operands = &node.inputs[..];
        let updated = match operands {
            [x, rest @ ..] if kernel.updates => {
                operands = rest;
                // None: operand and result share a place, so the value is already there
                (place(x) != results[0]).then_some(*x)
            }
            _ => None,
        };
        let read: Vec<usize> = operands.iter().copied().chain(updated).collect();
        let places: Vec<Place> = read.iter().map(place).collect();
        let (mut inputs, mut outputs) = spaces.views(&places, &results, copies)?;
        if updated.is_some() {
            let old = inputs.pop().unwrap_or_default();
            if old.len() != outputs[0].len() {
                return Err(Error::bug(format!("{} of {} bytes updates {}", node.op, outputs[0].len(), old.len())));
            }
            outputs[0].copy_from_slice(old);
        }
        let view = |(n, bytes)| Ok(View { dtype: dtype(n)?, shape: shape(n), bytes });
        let view_mut = |(n, bytes)| Ok(ViewMut { dtype: dtype(n)?, shape: shape(n), bytes });
        let operands = operands.iter().copied().zip(inputs).map(view).collect::<Result<_, Error>>()?;
        let results = node.results.iter().copied().zip(outputs).map(view_mut).collect::<Result<_, Error>>()?;
        match std::panic::catch_unwind(AssertUnwindSafe(|| (kernel.run)(&node.attrs, operands, results))) {
            Ok(result) => result,
            Err(cause) => {
                let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
                Err(Error::new(Code::Panicked, format!("the kernel panicked: {}", text.unwrap_or("no message"))))
            }
        }
    }
}

/// A step that runs programs of its own, in a region of the arena. spec/ops.md defines the op loop.
struct LoopStep {
    offset: usize,         // of the region
    sizes: (usize, usize), // of the IO space and of the arena in it
    cond: Option<Steps>,
    body: Steps,
    carried: usize,
    slices: usize, // number of operands that have a slice for each iteration
    length: usize,
    guarded: bool,
    results: Vec<usize>,
}

impl LoopStep {
    fn new(backend: &Backend, n: &Node, l: &Loop) -> Result<LoopStep, Error> {
        let steps = |p: &Arc<Program>| Steps::new(backend, p.clone());
        let number = |name: &str| {
            usize::try_from(n.attrs.int(name)?)
                .map_err(|_| Error::refused(format!("load: a loop has a negative {name}")))
        };
        let results = n.attrs.ints("results")?.iter().map(|k| usize::try_from(*k).unwrap_or(usize::MAX)).collect();
        let s = LoopStep {
            offset: l.offset,
            sizes: l.sizes(),
            cond: l.cond.as_ref().map(steps).transpose()?,
            body: steps(&l.body)?,
            carried: number("carried")?,
            slices: number("steps")?,
            length: number("length")?,
            guarded: n.attrs.bool("guarded")?,
            results,
        };
        let (body, operands) = (&s.body.program, n.inputs.len() - usize::from(s.guarded && !n.inputs.is_empty()));
        let fits = s.carried.checked_add(s.slices).is_some_and(|all| all <= operands)
            && (!s.guarded || operands < n.inputs.len())
            && (body.inputs.len(), body.outputs.len()) == (operands, s.carried)
            && s.results.len() == n.results.len()
            && s.results.iter().all(|k| *k / 2 < s.carried && *k < 2 * s.carried)
            && s.cond.iter().all(|c| (c.program.inputs.len(), c.program.outputs.len()) == (operands - s.slices, 1));
        if fits { Ok(s) } else { Err(Error::refused("load: a loop has other operands than its programs")) }
    }

    /// The place of an input or output of a program of the loop, in the arena of the program that has the loop.
    fn outer(&self, steps: &Steps, bound: &Bound, node: usize) -> Place {
        let p = steps.place(bound, node);
        Place { space: crate::program::Space::Arena, offset: self.offset + p.offset, bytes: p.bytes }
    }

    /// Runs all iterations. An error names the iteration.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        cond: Option<&Bound>,
        body: &Bound,
        operands: &[Place],
        results: &[Place],
        spaces: &mut Spaces<'_>,
        copies: &mut Copies,
        between: Between<'_>,
    ) -> Result<(), Error> {
        let (io, arena) = self.sizes;
        let of_body = |nodes: &[usize]| nodes.iter().map(|n| self.outer(&self.body, body, *n)).collect::<Vec<_>>();
        let (inputs, outputs) = (of_body(&self.body.program.inputs), of_body(&self.body.program.outputs));
        let (guard, fixed) = (operands.len() - usize::from(self.guarded), inputs.len() - self.slices);
        if self.guarded && spaces.bytes(operands[guard]).first().is_none_or(|g| *g == 0) {
            return self.finish(0, &inputs, operands, results, spaces);
        }
        for (x, to) in operands.iter().zip(&inputs[..fixed]) {
            spaces.copy(*x, *to)?;
        }
        let mut done = 0;
        while done < self.length {
            let at = |e: Error| e.within(format_args!("iteration {done}"));
            between()?;
            if let (Some(steps), Some(bound)) = (&self.cond, cond) {
                steps.iterate(bound, &mut spaces.inner(self.offset, io, arena), copies, between).map_err(at)?;
                let go = self.outer(steps, bound, steps.program.outputs[0]);
                if spaces.bytes(go).first().is_none_or(|g| *g == 0) {
                    break;
                }
            }
            for (x, to) in operands[fixed..guard].iter().zip(&inputs[fixed..]) {
                spaces.copy(x.row(done, to.bytes)?, *to)?;
            }
            self.body.iterate(body, &mut spaces.inner(self.offset, io, arena), copies, between).map_err(at)?;
            for (y, to) in outputs.iter().zip(&inputs) {
                spaces.copy(*y, *to)?;
            }
            for (k, out) in self.results.iter().zip(results).filter(|(k, _)| **k >= self.carried) {
                let value = inputs[k - self.carried];
                spaces.copy(value, out.row(done, value.bytes)?)?;
            }
            done += 1;
        }
        self.finish(done, &inputs, &inputs, results, spaces)
    }

    /// Stores the carried values, which are in `last`, and zeroes the rows of iterations that did not run.
    fn finish(
        &self,
        done: usize,
        inputs: &[Place],
        last: &[Place],
        results: &[Place],
        spaces: &mut Spaces<'_>,
    ) -> Result<(), Error> {
        for (k, out) in self.results.iter().zip(results) {
            if *k < self.carried {
                spaces.copy(last[*k], *out)?;
                continue;
            }
            for row in done..self.length {
                spaces.clear(out.row(row, inputs[k - self.carried].bytes)?);
            }
        }
        Ok(())
    }
}
