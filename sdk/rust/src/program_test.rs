//! Programs in the files of spec/testdata, which another implementation wrote, and in hostile bytes.

use super::*;
use crate::msgpack::tests::{encode, values};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn u64_at(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize
}

/// A section of an artifact.
fn section<'a>(file: &'a [u8], kind: &[u8]) -> &'a [u8] {
    let count = u32::from_le_bytes(file[32..36].try_into().unwrap()) as usize;
    let entry = (0..count).map(|i| &file[128 + 80 * i..][..80]).find(|e| e.starts_with(kind));
    entry.map(|e| &file[u64_at(e, 8)..][..u64_at(e, 16)]).unwrap_or_default()
}

/// The programs of an artifact as they are on the wire, and the size of its weights.
fn programs(file: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let lists = [b"GRPH", b"PLAN", b"SCHD"].map(|kind| msgpack::decode(section(file, kind)).unwrap());
    let [graphs, plans, schedules] = lists.each_ref().map(|v| v.array().unwrap());
    let wire = |i: usize| {
        let parts = [("graph", &graphs[i]), ("plan", &plans[i]), ("sched", &schedules[i])];
        encode(&Value::Map(parts.map(|(k, v)| (k.to_string(), v.clone())).into()))
    };
    ((0..graphs.len()).map(wire).collect(), section(file, b"WGTS").len())
}

fn artifacts() -> Vec<(PathBuf, Vec<u8>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/testdata");
    let files =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rlx"));
    let files: Vec<_> = files.map(|p| (p.clone(), fs::read(p).unwrap())).collect();
    assert!(!files.is_empty());
    files
}

/// The program y = neg x with x f32[N,4] and N = 1..2.
pub(crate) fn tiny() -> Program {
    let (_, file) = artifacts().into_iter().find(|(p, _)| p.ends_with("v1.0-tiny.rlx")).unwrap();
    Program::decode(&programs(&file).0[0], 0).unwrap()
}

/// The part of each artifact's .txt that describes programs. Another implementation read it from the same bytes.
fn text(p: &Program) -> String {
    let label = |i: &usize| p.label(*i);
    let list = |nodes: &[usize]| nodes.iter().map(label).collect::<Vec<_>>().join(", ");
    let mut out = format!("graph {}\n", p.method);
    for (name, (low, high)) in &p.syms {
        out += &format!("sym {name} = {low}..{high}\n");
    }
    for (i, n) in p.nodes.iter().enumerate().filter(|(_, n)| n.op != "result") {
        let made = if n.results.is_empty() { p.label(i) } else { list(&n.results) };
        let name = |k: usize| {
            let found = n.attrs.1.iter().find(|(_, at)| **at == k);
            found.map_or(String::new(), |(name, _)| format!("{name}="))
        };
        let operands: Vec<_> = n.inputs.iter().enumerate().map(|(k, x)| name(k) + &label(x)).collect();
        out += &format!("{made} = {} {}\n", n.op, operands.join(", "));
    }
    for (i, n) in p.nodes.iter().enumerate() {
        let of = n.parent.map(|p| format!(" of {p}")).unwrap_or_default();
        let space = ["weights", "arena", "io", "state"][n.space as usize];
        out += &format!("place {i}: {space} {} +{}{of}\n", n.offset, n.size);
    }
    p.steps.iter().for_each(|s| out += &format!("step {s}\n"));
    out
}

#[test]
fn vectors() {
    for (path, file) in artifacts() {
        let (list, weights) = programs(&file);
        let want = fs::read_to_string(path.with_extension("txt")).unwrap();
        let texts: Vec<_> = want.split("\nprogram ").skip(1).collect();
        assert_eq!(texts.len(), list.len());
        for (wire, want) in list.iter().zip(texts) {
            let p = Program::decode(wire, weights).unwrap();
            for line in text(&p).lines() {
                let found = want.lines().any(|w| w == line || w.starts_with(line) && line.contains(" = "));
                assert!(found, "{}: no line {line:?} in\n{want}", path.display());
            }
            for pick in [|r: &(i64, i64)| r.0, |r: &(i64, i64)| r.1] {
                let sizes = p.syms.iter().map(|(n, r)| (n.clone(), pick(r))).collect();
                p.bind(&sizes).unwrap();
            }
        }
    }
}

#[test]
fn sizes() {
    let p = tiny();
    assert_eq!((&*p.method, &p.inputs[..], &p.outputs[..], &p.steps[..]), ("f", &[0][..], &[1][..], &[1][..]));
    let bind = |sizes: &[(&str, i64)]| p.bind(&sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect());
    assert!(bind(&[("N", 2)]).unwrap().values.iter().all(|v| v.shape == [2, 4] && v.bytes == 32));
    for bad in [&[][..], &[("N", 0)], &[("N", 3)], &[("N", 1), ("M", 1)], &[("M", 1)]] {
        assert_eq!(bind(bad).unwrap_err().code(), crate::Code::BadInput);
    }
}

/// Changes to the tiny program and the expected error texts.
#[test]
fn refuses() {
    let wrong = |change: &dyn Fn(&mut Program)| {
        let mut p = tiny();
        change(&mut p);
        p.check(0).unwrap_err().to_string()
    };
    for (found, want) in [
        (wrong(&|p| p.nodes[1].size = 400), "y takes 400 bytes at 256 of its space, which has 512"),
        (wrong(&|p| p.nodes[1].offset = usize::MAX), "of its space"),
        (wrong(&|p| p.nodes[0].space = Space::Arena), "of its space, which has 0"),
        (wrong(&|p| p.nodes[1].inputs = vec![1]), "later node"),
        (wrong(&|p| p.nodes[1].dtype = None), "y has no value"),
        (wrong(&|p| p.steps = vec![2]), "node 2 of 2 is a step"),
        (
            wrong(&|p| (p.nodes[1].space, p.nodes[1].offset, p.nodes[1].size) = (Space::Weights, 0, 0)),
            "would write to the weights",
        ),
    ] {
        assert!(found.contains(want), "{found}; want {want}");
    }
    assert!(Program::decode(b"\x01", 0).is_err());
}

/// The program of v1.0-loop.rlx has a loop with a condition, whose body has a loop that reads a weight.
#[test]
fn loops() {
    let (_, file) = artifacts().into_iter().find(|(p, _)| p.ends_with("v1.0-loop.rlx")).unwrap();
    let (list, weights) = programs(&file);
    let p = Program::decode(&list[0], weights).unwrap();
    let l = &p.loops[&2];
    let inner = &l.body.loops[&2];
    assert_eq!((p.loops.len(), l.programs().count(), l.sizes(), inner.sizes()), (1, 2, (768, 512), (512, 0)));
    assert_eq!(
        (&*inner.body.method, inner.cond.is_some(), inner.body.nodes[1].space),
        ("inner", false, Space::Weights)
    );
    let bound = p.bind(&Sizes::new()).unwrap();
    assert_eq!(bound.loops[&2].1.loops[&2].1.values[3].shape, [4]);
    assert!(
        Program::decode(&list[0], weights - 1).unwrap_err().to_string().contains("w takes 16 bytes at 0 of its space")
    );
    for (arena, offset) in [(1279, 0), (1536, 257), (1536, usize::MAX)] {
        let mut p = p.clone();
        p.arena = arena;
        p.nodes.iter_mut().for_each(|n| n.size = 0);
        p.nodes.iter_mut().for_each(|n| n.offset = 0);
        p.loops.get_mut(&2).unwrap().offset = offset;
        assert!(p.check(weights).unwrap_err().to_string().contains("the loop %2 takes 768 + 512 bytes"));
    }
}

#[test]
fn needed() {
    let mut p = tiny();
    let spare = p.nodes[1].clone();
    p.nodes.push(spare);
    (p.steps, p.outputs) = (vec![1, 2], vec![1, 2]);
    assert_eq!(p.needed(&[true, false], &[]), [true, false]);
    assert_eq!(p.needed(&[false, false], &[2]), [false, true]);
    p.nodes[1].op = "kv_append".into();
    assert_eq!(p.needed(&[false, false], &[]), [true, false]);
}

/// The kernel of a custom op is found by its name and gets the attributes of its definition.
#[test]
fn custom() {
    let (_, file) = artifacts().into_iter().find(|(p, _)| p.ends_with("v1.0-tiny.rlx")).unwrap();
    let mut doc = msgpack::decode(&programs(&file).0[0]).unwrap();
    let text = |s: &str| Value::Str(s.into());
    let pair = |name: &str, v: Value| Value::Array(vec![text(name), v]);
    let map = |key: &str, v: Value| Value::Map([(key.to_string(), v)].into());
    let own = vec![pair("alpha", Value::Float(0.5)), pair("t", map("dtype", text("f32")))];
    let attrs = vec![
        pair("abs", Value::Float(0.0)),
        pair("expansion", map("graph", Value::Int(0))),
        pair("name", text("acme.wave")),
        pair("own", map("attrs", Value::Array(own))),
        pair("rel", Value::Float(0.0)),
    ];
    fn field<'a>(v: &'a mut Value, key: &str) -> &'a mut Value {
        let Value::Map(fields) = v else { panic!("no map") };
        &mut fields.iter_mut().find(|(k, _)| k == key).unwrap().1
    }
    let Value::Array(nodes) = field(field(&mut doc, "graph"), "nodes") else { panic!("no nodes") };
    *field(&mut nodes[1], "op") = text("custom");
    *field(&mut nodes[1], "attrs") = Value::Array(attrs);
    let p = Program::decode(&encode(&doc), 0).unwrap();
    let n = &p.nodes[1];
    assert_eq!((&*n.op, &*n.kernel, n.attrs.float("alpha").unwrap()), ("custom", "acme.wave", 0.5));
    assert!(n.attrs.dtype("t").unwrap() == Some(DType::F32) && n.attrs.get("name").is_none());

    let mut b = crate::Backend::new("t", "1");
    b.kernel("acme.wave", "(f32) if alpha >= 1", |_, [_], [_]| Ok(())).unwrap();
    assert!(b.kernels(&p).is_err());
    b.kernel("acme.wave", "(f32)", |_, [_], [_]| Ok(())).unwrap();
    assert!(b.kernels(&p).is_ok());
    let rules = "run custom(f32) if name = \"acme.wave\"\nrun custom(f32) if name = \"acme.wave\" and alpha >= 1\n";
    assert!(b.target().ends_with(rules), "{}", b.target());
}

/// Binds and queries a decoded program. Nothing may panic.
fn probe(wire: &[u8], weights: usize) {
    let Ok(p) = Program::decode(wire, weights) else { return };
    for pick in [|r: &(i64, i64)| r.0, |r: &(i64, i64)| r.1] {
        let _ = p.bind(&p.syms.iter().map(|(n, r)| (n.clone(), pick(r))).collect());
    }
    p.needed(&vec![false; p.outputs.len()], &[]);
    assert!((0..p.nodes.len()).filter(|n| p.is_param(*n)).count() <= p.nodes.len());
}

proptest! {
    #[test]
    fn hostile_bytes(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        which in any::<prop::sample::Index>(),
    ) {
        let mut files = artifacts();
        let (list, weights) = programs(&files.remove(which.index(files.len())).1);
        let mut wire = list[which.index(list.len())].clone();
        for (at, b) in edits {
            let at = at.index(wire.len());
            wire[at] = b;
        }
        probe(&wire, weights);
    }

    /// Replaces every part of a program by various values.
    #[test]
    fn hostile_values(v in values(), at in any::<prop::sample::Index>()) {
        let mut files = artifacts();
        let (list, weights) = programs(&files.remove(at.index(files.len())).1);
        let mut doc = msgpack::decode(&list[at.index(list.len())]).unwrap();
        let mut n = at.index(1000);
        replace(&mut doc, &mut n, &v);
        probe(&encode(&doc), weights);
    }
}

/// Replaces the n-th value by v.
fn replace(doc: &mut Value, n: &mut usize, v: &Value) {
    if *n == 0 {
        *doc = v.clone();
    }
    *n = n.wrapping_sub(1);
    match doc {
        Value::Array(a) => a.iter_mut().for_each(|d| replace(d, n, v)),
        Value::Map(m) => m.iter_mut().for_each(|(_, d)| replace(d, n, v)),
        _ => {}
    }
}
