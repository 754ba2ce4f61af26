//! A backend as its author defines it: devices, kernels, and the target description that the kernels' rules form.

use crate::error::{Code, Error, SetupError};
use crate::program::{Attrs, Program};
use crate::rules::Rule;
use crate::view::{DType, View, ViewMut};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceType {
    /// The processor.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// Any other accelerator.
    Npu,
    /// A device that the CPU emulates. It is used only if `--device` names it.
    Software,
}

/// One device, as `rlxrun devices` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: DeviceType,
    pub(crate) memory: i64,
    pub(crate) features: Vec<String>,
}

impl Device {
    /// A device. `--device` selects it by id: 1 to 64 ASCII characters without blanks and commas. The name is for
    /// people.
    pub fn new(id: &str, name: &str, kind: DeviceType) -> Self {
        Device { id: id.into(), name: name.into(), kind, memory: 0, features: Vec::new() }
    }

    /// Bytes of the device's own memory. Without a call, it uses the host's.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = i64::try_from(bytes).unwrap_or(i64::MAX);
        self
    }

    /// A feature to show to people, such as `8 cores`.
    pub fn feature(mut self, text: &str) -> Self {
        self.features.push(text.into());
        self
    }
}

type Run = dyn Fn(&Attrs, Vec<View<'_>>, Vec<ViewMut<'_>>) -> Result<(), Error> + Send + Sync;

/// A kernel and the nodes that it runs.
pub(crate) struct Kernel {
    text: String,
    rule: Rule,
    /// Numbers of operands and results; None: any.
    counts: Option<(usize, usize)>,
    /// Result 0 initially holds operand 0. The kernel does not get that operand.
    pub(crate) updates: bool,
    pub(crate) run: Box<Run>,
}

/// A backend: its name, its devices and its kernels.
pub struct Backend {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) devices: Vec<Device>,
    pub(crate) max_alloc: i64,
    pub(crate) scratch: usize,
    types: Vec<DType>,
    kernels: BTreeMap<String, Vec<Arc<Kernel>>>,
}

impl Backend {
    /// A backend without devices. Its executable must be called `rlx-backend-NAME`; the name has lower-case letters,
    /// digits, `_` and `-`. Values have the types f32, i32, i64 and bool unless [`Backend::types`] is called.
    pub fn new(name: &str, version: &str) -> Self {
        let types = vec![DType::F32, DType::I32, DType::I64, DType::Bool];
        let (name, version) = (name.into(), version.into());
        Backend { name, version, devices: Vec::new(), max_alloc: 0, scratch: 0, types, kernels: BTreeMap::new() }
    }

    /// Adds a device. The first one is the default.
    pub fn device(mut self, device: Device) -> Self {
        self.devices.push(device);
        self
    }

    /// The element types of all values, including inputs and weights.
    pub fn types(mut self, types: &[DType]) -> Self {
        self.types = types.to_vec();
        self.types.sort();
        self.types.dedup();
        self
    }

    /// Bytes of the largest arena that it can allocate. Without a call, there is no limit.
    pub fn max_alloc(mut self, bytes: u64) -> Self {
        self.max_alloc = i64::try_from(bytes).unwrap_or(i64::MAX);
        self
    }

    /// The most bytes that a kernel allocates while it runs. Hosts reserve them before a run.
    pub fn scratch(mut self, bytes: usize) -> Self {
        self.scratch = bytes;
        self
    }

    /// Registers a kernel for the nodes of an op that a rule allows, or of a custom op by its name, such as acme.wave
    /// (docs/custom-ops.md). The rule is written as in spec/target.md, without the op.
    ///
    /// The kernel gets the attributes, the operands and the results, and writes the results. The sizes of its arrays
    /// fix how many operands and results a node may have; other nodes are refused. If an op has optional operands,
    /// exclude them by a condition of the rule or use [`Backend::variadic`]. If several rules allow a node, the first
    /// kernel runs it. An operand that shares memory with a result is copied first, so the kernel never sees it change.
    ///
    /// ```
    /// # use rlx_backend::{Backend, SetupError};
    /// let mut backend = Backend::new("mine", "1.0"); backend.kernel("matmul", "(f32 rank 2, f32 rank 2) if trans_a =
    /// false and trans_b = false", |_, [a, b], [mut out]| {
    ///     let (k, n) = (a.shape()[1], b.shape()[1]);
    ///     let (a, b) = (a.slice::<f32>()?, b.slice::<f32>()?);
    ///     for (i, y) in out.slice::<f32>()?.iter_mut().enumerate() {
    ///         *y = (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum();
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), SetupError>(())
    /// ```
    pub fn kernel<const I: usize, const O: usize>(
        &mut self,
        op: &str,
        rule: &str,
        f: impl Fn(&Attrs, [View<'_>; I], [ViewMut<'_>; O]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), SetupError> {
        let run = move |attrs: &Attrs, operands: Vec<View<'_>>, results: Vec<ViewMut<'_>>| {
            f(attrs, all(operands)?, all(results)?)
        };
        self.register(op, rule, Some((I, O)), false, Box::new(run))
    }

    /// Registers a kernel for an op with any number of operands or results, such as concat.
    pub fn variadic(
        &mut self,
        op: &str,
        rule: &str,
        f: impl Fn(&Attrs, &[View<'_>], &mut [ViewMut<'_>]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), SetupError> {
        let run = move |attrs: &Attrs, operands: Vec<View<'_>>, mut results: Vec<ViewMut<'_>>| {
            f(attrs, &operands, &mut results)
        };
        self.register(op, rule, None, false, Box::new(run))
    }

    /// Registers a kernel for an op that may overwrite its operand 0. The result must have that operand's shape and
    /// element type.
    ///
    /// The result initially holds operand 0. The kernel does not get that operand, so `I` counts the others. If the
    /// program places operand and result at the same address, as for updates of states, nothing is copied.
    ///
    /// ```
    /// # use rlx_backend::{Backend, SetupError};
    /// let mut backend = Backend::new("mine", "1.0");
    /// backend.update("relu", "(f32)", |_, [], mut x| {
    ///     x.slice::<f32>()?.iter_mut().for_each(|v| *v = if *v < 0.0 { 0.0 } else { *v });
    ///     Ok(())
    /// })?;
    /// # Ok::<(), SetupError>(())
    /// ```
    pub fn update<const I: usize>(
        &mut self,
        op: &str,
        rule: &str,
        f: impl Fn(&Attrs, [View<'_>; I], ViewMut<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), SetupError> {
        let run = move |attrs: &Attrs, operands: Vec<View<'_>>, results: Vec<ViewMut<'_>>| {
            let [result] = all(results)?;
            f(attrs, all(operands)?, result)
        };
        self.register(op, rule, Some((I + 1, 1)), true, Box::new(run))
    }

    /// Registers the op loop, which runs the programs of a loop with the backend's other kernels.
    ///
    /// With it the compiler gives the backend a long while or scan as one step, so that file size and time per
    /// iteration do not depend on the number of iterations. A loop is unrolled if it has a node that no other kernel
    /// takes, or a value of an element type that the backend does not have.
    pub fn run_loops(&mut self) {
        // the program of the loop has its steps, so that this function is never called
        let run: Box<Run> = Box::new(|_, _, _| Err(Error::bug("a loop runs in a program only")));
        self.register("loop", "(any...)", None, false, run).expect("the rule is valid");
    }

    fn register(
        &mut self,
        op: &str,
        rule: &str,
        counts: Option<(usize, usize)>,
        updates: bool,
        run: Box<Run>,
    ) -> Result<(), SetupError> {
        let parsed = Rule::parse(rule).map_err(|why| SetupError::Rule(op.into(), rule.into(), why))?;
        let kernel = Kernel { text: rule.into(), rule: parsed, counts, updates, run };
        self.kernels.entry(op.into()).or_default().push(Arc::new(kernel));
        Ok(())
    }

    /// The target description. `rlxrun plugins describe` prints it.
    pub fn target(&self) -> String {
        let types: Vec<_> = self.types.iter().map(|t| t.name()).collect();
        let mut out = format!("target {} {}\ntypes {}\n\n", self.name, self.version, types.join(" "));
        for (op, kernels) in &self.kernels {
            let mut texts: Vec<_> = kernels.iter().map(|k| k.text.as_str()).collect();
            texts.sort();
            texts.dedup();
            texts.iter().for_each(|text| out += &line(op, text));
        }
        out
    }

    /// The kernel of each step, or an error if the target description does not allow some node.
    pub(crate) fn kernels(&self, p: &Program) -> Result<Vec<Arc<Kernel>>, Error> {
        let refuse = |why: String| Error::unsupported(why).about(&self.name);
        match p.target.split_once(':') {
            Some((name, level)) if name == self.name => {
                return Err(
                    Error::new(Code::Level, format!("{} needs level {level}; it has none", p.method)).about(name)
                );
            }
            _ => {}
        }
        for (i, n) in p.nodes.iter().enumerate() {
            if let Some(d) = n.dtype.filter(|d| !self.types.contains(d)) {
                return Err(refuse(format!("{}: element type {d} is not supported", p.label(i))));
            }
        }
        let of_step = |s: &usize| {
            let n = &p.nodes[*s];
            let Some(list) = self.kernels.get(&n.kernel) else {
                return Err(refuse(format!("{}: there is no kernel for {}", p.label(*s), n.kernel)));
            };
            let fits = |k: &&Arc<Kernel>| {
                k.counts.is_none_or(|c| c == (n.inputs.len(), n.results.len())) && k.rule.takes(p, n)
            };
            list.iter().find(fits).cloned().ok_or_else(|| {
                let types: Vec<_> = n.inputs.iter().map(|x| p.nodes[*x].dtype.map_or("", DType::name)).collect();
                let rules: Vec<_> = list.iter().map(|k| k.text.as_str()).collect();
                let (label, types, rules) = (p.label(*s), types.join(", "), rules.join("; "));
                refuse(format!("{label}: {} of {types} with {:?}; its rules are {rules}", n.kernel, n.attrs))
            })
        };
        p.steps.iter().map(of_step).collect()
    }
}

/// A rule of the target description. A name with a dot is that of a custom op.
fn line(op: &str, rule: &str) -> String {
    match (op.contains('.'), rule.split_once(" if ")) {
        (false, _) => format!("run {op}{rule}\n"),
        (true, None) => format!("run custom{rule} if name = \"{op}\"\n"),
        (true, Some((operands, when))) => format!("run custom{operands} if name = \"{op}\" and {when}\n"),
    }
}

/// Converts a list to an array of N items.
fn all<T, const N: usize>(list: Vec<T>) -> Result<[T; N], Error> {
    list.try_into().map_err(|l: Vec<T>| Error::bug(format!("a kernel of {N} is called with {}", l.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::tiny;

    #[test]
    fn description() {
        let mut b = Backend::new("t", "1").types(&[DType::I32, DType::F32, DType::I32]);
        b.kernel("neg", "(f32...)", |_, [_], [_]| Ok(())).unwrap();
        b.kernel("neg", "(f32 rank 2)", |_, [_], [_]| Ok(())).unwrap();
        b.update("abs", "(f32)", |_, [], _| Ok(())).unwrap();
        assert_eq!(b.target(), "target t 1\ntypes f32 i32\n\nrun abs(f32)\nrun neg(f32 rank 2)\nrun neg(f32...)\n");
        let err = b.kernel("neg", "(f33)", |_, [_], [_]| Ok(())).unwrap_err();
        assert_eq!(format!("{err:?}"), r#"run neg(f33): found "f33"; want an element type, any or same"#);
    }

    #[test]
    fn chosen() {
        let p = tiny();
        let code = |b: &Backend| b.kernels(&p).err().map(|e| e.code());
        let mut b = Backend::new("t", "1");
        assert_eq!(code(&b), Some(Code::Unsupported));
        b.kernel("neg", "(f32 rank 3)", |_, [_], [_]| Ok(())).unwrap();
        b.kernel("neg", "(f32...)", |_, [_, _], [_]| Ok(())).unwrap();
        assert_eq!(code(&b), Some(Code::Unsupported));
        b.kernel("neg", "(f32)", |_, [_], [_]| Ok(())).unwrap();
        assert_eq!(b.kernels(&p).unwrap()[0].text, "(f32)");
        assert_eq!(code(&b.types(&[DType::I32])), Some(Code::Unsupported));
        let mut leveled = tiny();
        leveled.target = "t:v2".into();
        assert_eq!(Backend::new("t", "1").kernels(&leveled).err().unwrap().code(), Code::Level);
    }
}
