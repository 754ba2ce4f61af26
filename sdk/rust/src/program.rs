//! Programs as a host sends them. See spec/format.md, "A program on the wire".

use crate::dims::{Dim, Sizes};
use crate::error::Error;
use crate::msgpack::{self, Value};
use crate::view::DType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Attr {
    /// `true` or `false`.
    Bool(bool),
    /// An integer. Floats are never stored as integers.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, such as the name of an activation.
    Str(String),
    /// A list, such as the axes of a reduction.
    Ints(Vec<i64>),
    /// An element type. None: the op chooses.
    DType(Option<DType>),
    /// The number of a graph among the program's bodies, or None.
    Graph(Option<usize>),
    /// Attributes that a definition outside of RLX names; kernels of custom ops get them in place of the op's.
    Own(BTreeMap<String, Attr>),
}

/// The attributes of a node by name, and the names of its optional operands. spec/ops.md lists both for each op. A node
/// has all attributes of its op.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attrs(pub(crate) BTreeMap<String, Attr>, pub(crate) BTreeMap<String, usize>);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident $kind:ident -> $out:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// Fails with RLX9001 if the op has no such attribute.
        pub fn $name(&self, name: &str) -> Result<$out, Error> {
            match self.0.get(name) {
                Some(Attr::$kind(v)) => Ok($value(v)),
                Some(v) => Err(Error::bug(format!("attribute {name} is {v:?}"))),
                None => Err(Error::bug(format!("there is no attribute {name}"))),
            }
        }
    )* };
}

impl Attrs {
    getters! {
        /// A bool.
        bool Bool -> bool = |v: &bool| *v;
        /// An integer.
        int Int -> i64 = |v: &i64| *v;
        /// A float.
        float Float -> f64 = |v: &f64| *v;
        /// A text.
        str Str -> &str = String::as_str;
        /// A list of integers.
        ints Ints -> &[i64] = Vec::as_slice;
        /// An element type.
        dtype DType -> Option<DType> = |v: &Option<DType>| *v;
    }

    /// The attribute of that name, of any kind.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.get(name)
    }

    /// The index of an optional operand among the operands, or None if the node lacks it.
    pub fn optional(&self, name: &str) -> Option<usize> {
        self.1.get(name).copied()
    }

    /// An axis as an index.
    ///
    /// Fails with RLX9001 if the op has no such attribute.
    pub fn axis(&self, name: &str) -> Result<usize, Error> {
        usize::try_from(self.int(name)?).map_err(|_| Error::bug(format!("attribute {name} is not an axis")))
    }
}

/// The memory space of a place. The numbers are those of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    Weights,
    Arena,
    Io,
    State,
}

const SPACES: [Space; 4] = [Space::Weights, Space::Arena, Space::Io, Space::State];

/// A value of a program. A node whose op has several results has no value; `result` nodes hold its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub op: String,
    pub kernel: String, // under which a kernel is registered: the op or, for a custom op, the name of its definition
    pub name: String,
    pub attrs: Attrs,       // those of a custom op are the ones of its definition
    pub inputs: Vec<usize>, // the operands: required ones, then optional ones
    pub dtype: Option<DType>,
    pub shape: Vec<Dim>,
    pub parent: Option<usize>, // the node whose memory it shares
    pub space: Space,
    pub offset: usize,
    pub size: usize,         // bytes, at the largest sizes
    pub results: Vec<usize>, // nodes of the values that the step computes
}

impl Node {
    /// Whether its shape is the same in all runs.
    pub fn is_static(&self) -> bool {
        self.shape.iter().all(|d| matches!(d, Dim::Number(_)))
    }
}

/// A decoded program. Places are inside their spaces, and numbers of nodes are valid. The host has verified everything
/// else.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub method: String,
    pub target: String,
    pub syms: BTreeMap<String, (i64, i64)>, // with their ranges, bounds included
    pub nodes: Vec<Node>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
    pub steps: Vec<usize>,
    pub arena: usize,
    pub io: usize,
    pub state: usize,
    pub loops: BTreeMap<usize, Loop>, // by node
}

/// The programs of a node of op loop. They run in a region of the arena: first the IO space that they share, then their
/// arena, which they share, too. See spec/format.md, "Loops".
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    pub offset: usize, // of the region
    pub cond: Option<Arc<Program>>,
    pub body: Arc<Program>,
}

impl Loop {
    pub fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.cond.iter().chain([&self.body])
    }

    /// The sizes of the IO space and of the arena of the programs.
    pub fn sizes(&self) -> (usize, usize) {
        self.programs().fold((0, 0), |(io, arena), p| (io.max(p.io), arena.max(p.arena)))
    }
}

/// The values of a program under the sizes of a run, one for each node.
#[derive(Debug)]
pub struct Bound {
    pub values: Vec<Bounds>,
    pub loops: BTreeMap<usize, (Option<Bound>, Bound)>, // of a loop's cond and body, by node
}

/// The shape of a value and the place of its bytes.
#[derive(Debug)]
pub struct Bounds {
    pub shape: Vec<usize>,
    pub bytes: usize,
}

impl Program {
    /// Decodes a program. `weights` is the size of its weights in bytes.
    pub fn decode(data: &[u8], weights: usize) -> Result<Program, Error> {
        let doc = msgpack::decode(data).map_err(cannot_read)?;
        let parts = [doc.get("graph"), doc.get("plan"), doc.get("sched")];
        let [Ok(graph), Ok(plan), Ok(sched)] = parts else { return Err(Error::refused("load: no program")) };
        Program::new(graph, plan, sched, weights)
    }

    /// Builds a program from its three parts.
    pub fn new(graph: &Value, plan: &Value, sched: &Value, weights: usize) -> Result<Program, Error> {
        let mut nested: BTreeMap<usize, Arc<Program>> = BTreeMap::new(); // the programs of loops, by number of the body
        let list = |v: &Value| v.get("bodies").map_or(Ok(Vec::new()), |b| b.array().map(<[Value]>::to_vec));
        let bodies = list(graph).map_err(cannot_read)?;
        let plans = list(plan).map_err(cannot_read)?;
        let schedules = list(sched).map_err(cannot_read)?;
        if plans.len() != schedules.len() {
            return Err(Error::refused("load: bodies have plans without schedules"));
        }
        for (plan, sched) in plans.iter().zip(&schedules) {
            let number = plan.get("body").and_then(Value::size).map_err(cannot_read)?;
            let Some(body) =
                bodies.get(number).filter(|_| sched.get("body").is_ok_and(|n| *n == Value::Int(number as i64)))
            else {
                return Err(Error::refused(format!("load: body {number} has no graph or no schedule")));
            };
            // a body refers to lower numbers only, and these come first
            let p = read(body, plan, sched, &nested).map_err(cannot_read)?;
            p.check(weights)?;
            nested.insert(number, Arc::new(p));
        }
        let p = read(graph, plan, sched, &nested).map_err(cannot_read)?;
        p.check(weights)?;
        Ok(p)
    }

    /// Checks everything from which memory addresses are computed.
    fn check(&self, weights: usize) -> Result<(), Error> {
        let fail = |what: String| Err(Error::refused(format!("load: {what}")));
        for (i, n) in self.nodes.iter().enumerate() {
            let limit = [weights, self.arena, self.io, self.state][n.space as usize];
            if n.offset > limit || n.size > limit - n.offset {
                let label = self.label(i);
                return fail(format!("{label} takes {} bytes at {} of its space, which has {limit}", n.size, n.offset));
            }
            if n.inputs.iter().any(|x| *x >= i) || n.parent.is_some_and(|x| x >= i) {
                return fail(format!("{} has a later node as an operand", self.label(i)));
            }
            if n.dtype.is_none() && self.nodes.get(i + 1).is_none_or(|r| r.op != "result") {
                return fail(format!("{} has no value", self.label(i)));
            }
        }
        if let Some(n) = self.steps.iter().chain(&self.outputs).find(|n| **n >= self.nodes.len()) {
            return fail(format!("node {n} of {} is a step or an output", self.nodes.len()));
        }
        for (s, n) in self.steps.iter().map(|s| (*s, &self.nodes[*s])) {
            // An operand without a value is an op with several results. Only its `result` nodes may use it.
            if n.op == "result" || n.inputs.iter().any(|x| self.nodes[*x].dtype.is_none()) {
                return fail(format!("{} needs no step", self.label(s)));
            }
            if n.results.iter().any(|r| self.nodes[*r].space == Space::Weights) {
                return fail(format!("{} would write to the weights", self.label(s)));
            }
        }
        for (node, l) in &self.loops {
            let (io, arena) = l.sizes();
            let fits = self.arena.checked_sub(l.offset).and_then(|n| n.checked_sub(io)).is_some_and(|n| n >= arena);
            if !fits {
                let label = self.label(*node);
                let limit = self.arena;
                return fail(format!(
                    "the loop {label} takes {io} + {arena} bytes at {} of the arena, which has {limit}",
                    l.offset
                ));
            }
        }
        match self.outputs.iter().chain(&self.inputs).find(|n| self.nodes[**n].space != Space::Io) {
            Some(n) => fail(format!("{} is an input or an output outside the IO space", self.label(*n))),
            None => Ok(()),
        }
    }

    /// The name of a node in messages.
    pub fn label(&self, node: usize) -> String {
        let n = &self.nodes[node];
        if n.name.is_empty() { format!("%{node}") } else { n.name.clone() }
    }

    /// Whether a value is known before the run: a weight, a constant, or a view of one.
    pub fn is_param(&self, node: usize) -> bool {
        let mut n = &self.nodes[node];
        while let (Some(parent), true) = (n.parent, n.results.is_empty()) {
            n = &self.nodes[parent];
        }
        n.op == "param" || n.op == "const"
    }

    /// Whether a step computes the value of a node.
    pub fn is_made(&self, node: usize) -> bool {
        let n = &self.nodes[node];
        n.op == "result" || n.results == [node]
    }

    /// Computes all sizes of a run. Fails with RLX3001 for sizes that the program does not allow.
    pub fn bind(&self, sizes: &Sizes) -> Result<Bound, Error> {
        let fail = |what: String| Err(Error::bad_input(what).about(&self.method));
        if !sizes.keys().eq(self.syms.keys()) {
            return fail(format!("sizes {:?} are given; it has {:?}", sizes.keys(), self.syms.keys()));
        }
        for ((name, size), (low, high)) in sizes.iter().zip(self.syms.values()) {
            if size < low || size > high {
                return fail(format!("size {name} is {size}; allowed are {low} to {high}"));
            }
        }
        let mut values: Vec<Bounds> = Vec::with_capacity(self.nodes.len());
        for (i, n) in self.nodes.iter().enumerate() {
            let shape: Option<Vec<usize>> = n.shape.iter().map(|d| d.eval(sizes)?.try_into().ok()).collect();
            let bytes = shape.as_ref().and_then(|s| match n.dtype {
                Some(d) => s.iter().try_fold(d.size(), |all, n| all.checked_mul(*n)),
                None => Some(0),
            });
            let (Some(shape), Some(bytes)) = (shape, bytes) else {
                return fail(format!("{}: sizes {sizes:?} are beyond what a tensor may have", self.label(i)));
            };
            if bytes > n.size {
                return fail(format!("{} has {bytes} bytes; its place has {}", self.label(i), n.size));
            }
            if let ("reshape", [x]) = (n.op.as_str(), &n.inputs[..])
                && bytes != values[*x].bytes
            {
                let from = &values[*x].shape;
                return fail(format!(
                    "sizes {sizes:?} do not go together: {} is {from:?}, to be read as {shape:?}",
                    self.label(*x)
                ));
            }
            values.push(Bounds { shape, bytes });
        }
        let mut loops = BTreeMap::new();
        for (node, l) in &self.loops {
            let bind = |p: &Arc<Program>| {
                let own = |name: &String| sizes.get(name).map(|size| (name.clone(), *size));
                p.bind(&p.syms.keys().filter_map(own).collect())
            };
            loops.insert(*node, (l.cond.as_ref().map(bind).transpose()?, bind(&l.body)?));
        }
        Ok(Bound { values, loops })
    }

    /// For each step, whether a run needs it to compute the wanted outputs and the nodes in `dumps`.
    pub fn needed(&self, outputs: &[bool], dumps: &[usize]) -> Vec<bool> {
        let mut wanted = vec![false; self.nodes.len()];
        for (node, w) in self.outputs.iter().zip(outputs) {
            wanted[*node] |= w;
        }
        dumps.iter().for_each(|n| wanted[*n] = true);
        for (i, n) in self.nodes.iter().enumerate().rev() {
            if wanted[i] || n.op == "kv_append" {
                wanted[i] = true;
                n.inputs.iter().for_each(|x| wanted[*x] = true);
            }
        }
        self.steps.iter().map(|s| wanted[*s]).collect()
    }
}

fn cannot_read(e: Error) -> Error {
    Error::refused(format!("load: the program cannot be read: {e}"))
}

/// Reads a program, or one of a loop. `nested` has the programs that its loops may refer to.
fn read(graph: &Value, plan: &Value, sched: &Value, nested: &BTreeMap<usize, Arc<Program>>) -> Result<Program, Error> {
    let sizes = |v: &Value| v.array()?.iter().map(Value::size).collect::<Result<Vec<_>, _>>();
    let mut syms = BTreeMap::new();
    for s in graph.get("syms")?.array()? {
        let [name, low, high] = s.tuple()?;
        syms.insert(name.str()?.to_string(), (low.int()?, high.int()?));
    }
    let (list, places) = (graph.get("nodes")?.array()?, plan.get("places")?.array()?);
    if list.len() != places.len() {
        return Err(Error::refused(format!("{} nodes have {} places", list.len(), places.len())));
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(list.len());
    for (i, (n, place)) in list.iter().zip(places).enumerate() {
        let node = node(n, place)?;
        if node.op == "result" {
            match node.inputs[..] {
                [op] if op < i && nodes[op].dtype.is_none() => nodes[op].results.push(i),
                _ => return Err(Error::refused(format!("node {i} is a result of {:?}", node.inputs))),
            }
        }
        nodes.push(node);
    }
    let steps = sizes(sched.get("steps")?)?;
    for s in &steps {
        match nodes.get_mut(*s) {
            Some(n) if n.dtype.is_some() => n.results = vec![*s],
            _ => {}
        }
    }
    let mut loops = BTreeMap::new();
    for l in plan.get("loops").map_or(Ok(&[][..]), Value::array)? {
        let [node, offset] = l.tuple()?;
        let body = |n: &Node, name: &str| match n.attrs.get(name) {
            Some(Attr::Graph(None)) => Ok(None),
            Some(Attr::Graph(Some(k))) if nested.contains_key(k) => Ok(Some(nested[k].clone())),
            other => Err(Error::refused(format!("a loop has {name} = {other:?}, which has no program"))),
        };
        let Some(n) = nodes.get(node.size()?) else {
            return Err(Error::refused(format!("loop {node:?} of {} nodes", nodes.len())));
        };
        let (cond, Some(body)) = (body(n, "cond")?, body(n, "body")?) else {
            return Err(Error::refused("a loop has no body"));
        };
        loops.insert(node.size()?, Loop { offset: offset.size()?, cond, body });
    }
    let outputs = graph.get("outputs")?.array()?.iter().map(|o| o.tuple::<2>()?[1].size()).collect::<Result<_, _>>()?;
    Ok(Program {
        method: graph.get("method").or_else(|_| graph.get("name"))?.str()?.into(),
        target: graph.get("target").map_or(Ok(""), Value::str)?.into(), // a body has none
        inputs: (0..nodes.len()).filter(|i| nodes[*i].op == "input").collect(),
        arena: plan.get("arena")?.size()?,
        io: plan.get("io")?.size()?,
        state: plan.get("state").map_or(Ok(0), Value::size)?, // the program of a loop has none
        loops,
        syms,
        nodes,
        outputs,
        steps,
    })
}

fn node(n: &Value, place: &Value) -> Result<Node, Error> {
    let [space, offset, size, parent] = place.tuple()?;
    let mut attrs = attributes(n.get("attrs")?)?;
    let op = n.get("op")?.str()?;
    let mut kernel = op.to_string();
    if op == "custom" {
        match (attrs.remove("name"), attrs.remove("own")) {
            (Some(Attr::Str(name)), Some(Attr::Own(own))) => (kernel, attrs) = (name, own),
            _ => return Err(Error::refused("a custom op has no name or no attributes")),
        }
    }
    let dim = |d: &Value| match d {
        Value::Str(s) => Dim::parse(s),
        d => Ok(Dim::Number(d.int()?)),
    };
    let mut inputs: Vec<_> = n.get("in")?.array()?.iter().map(Value::size).collect::<Result<_, _>>()?;
    let mut optional = BTreeMap::new();
    for o in n.get("optional")?.array()? {
        let [name, x] = o.tuple()?;
        optional.insert(name.str()?.to_string(), inputs.len());
        inputs.push(x.size()?);
    }
    Ok(Node {
        op: op.into(),
        kernel,
        name: n.get("name")?.str()?.into(),
        attrs: Attrs(attrs, optional),
        inputs,
        dtype: dtype(n.get("dtype")?.str()?)?,
        shape: n.get("shape")?.array()?.iter().map(dim).collect::<Result<_, _>>()?,
        parent: match parent.int()? {
            -1 => None,
            _ => Some(parent.size()?),
        },
        space: match SPACES.get(space.size()?) {
            Some(s) => *s,
            None => return Err(Error::refused(format!("space {space:?}"))),
        },
        offset: offset.size()?,
        size: size.size()?,
        results: Vec::new(),
    })
}

fn dtype(name: &str) -> Result<Option<DType>, Error> {
    match (name, DType::parse(name)) {
        ("", _) => Ok(None),
        (_, None) => Err(Error::refused(format!("element type {name:?}"))),
        (_, known) => Ok(known),
    }
}

fn attributes(list: &Value) -> Result<BTreeMap<String, Attr>, Error> {
    let mut attrs = BTreeMap::new();
    for a in list.array()? {
        let [name, value] = a.tuple()?;
        attrs.insert(name.str()?.to_string(), attr(value)?);
    }
    Ok(attrs)
}

fn attr(v: &Value) -> Result<Attr, Error> {
    Ok(match v {
        Value::Bool(b) => Attr::Bool(*b),
        Value::Int(n) => Attr::Int(*n),
        Value::Float(x) => Attr::Float(*x),
        Value::Str(s) => Attr::Str(s.clone()),
        Value::Array(a) => Attr::Ints(a.iter().map(Value::int).collect::<Result<_, _>>()?),
        Value::Map(_) => match v.get("graph") {
            Ok(n) if n.int()? < 0 => Attr::Graph(None),
            Ok(n) => Attr::Graph(Some(n.size()?)),
            Err(_) => match v.get("attrs") {
                Ok(own) => Attr::Own(attributes(own)?),
                Err(_) => Attr::DType(dtype(v.get("dtype")?.str()?)?),
            },
        },
        Value::Bin(_) => return Err(Error::refused("an attribute is bytes")),
    })
}

#[cfg(test)]
#[path = "program_test.rs"]
pub(crate) mod tests;
