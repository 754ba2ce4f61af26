//! Runs of the tiny program, y = neg x, without a host.

use super::*;
use crate::Backend;
use crate::program::tests::tiny;

/// A caller that has the inputs and records the calls.
#[derive(Default)]
struct Recorder {
    input: Vec<f32>,
    output: Vec<f32>,
    steps: Vec<usize>,
    dumps: Vec<(usize, Vec<usize>, Vec<f32>)>,
    cancelled: bool,
}

fn floats(b: &[u8]) -> Vec<f32> {
    b.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

impl Caller for Recorder {
    fn input(&mut self, index: usize, into: &mut [u8]) -> Result<(), Error> {
        assert_eq!(index, 0);
        into.copy_from_slice(bytemuck::cast_slice(&self.input));
        Ok(())
    }

    fn step(&mut self, started: usize) {
        self.steps.push(started);
    }

    fn cancelled(&self) -> bool {
        self.cancelled
    }

    fn dump(&mut self, node: usize, shape: &[usize], data: &[u8]) -> Result<(), Error> {
        self.dumps.push((node, shape.to_vec(), floats(data)));
        Ok(())
    }

    fn output(&mut self, index: usize, data: &[u8]) -> Result<(), Error> {
        assert_eq!(index, 0);
        self.output = floats(data);
        Ok(())
    }
}

fn backend() -> Backend {
    let mut b = Backend::new("t", "1");
    b.kernel("neg", "(f32)", |_, [x], [mut out]| {
        let x = x.slice::<f32>()?;
        match x[0] {
            100.0 => return Err(Error::bad_input("it is 100")),
            101.0 => panic!("it is {}", x[0]),
            _ => {}
        }
        for (y, x) in out.slice::<f32>()?.iter_mut().zip(x) {
            *y = -x;
        }
        Ok(())
    })
    .unwrap();
    b
}

fn executable(b: &Backend, p: Program) -> Executable {
    let io = Io::private(p.io).unwrap();
    Executable::new(b, p, Weights::Block(memory::block(0, "").unwrap(), 0), false, Some(io)).unwrap()
}

fn header() -> RunHeader {
    let range = |offset| vec![Range { offset, size: 32 }];
    let syms = [("N".to_string(), 2)].into();
    RunHeader { executable: 1, generation: 1, inputs: range(0), outputs: range(256), syms, ..Default::default() }
}

fn recorder(first: f32) -> Recorder {
    Recorder { input: [first, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0].into(), ..Default::default() }
}

#[test]
fn runs() {
    let (e, mut states) = (executable(&backend(), tiny()), States::new());
    let (h, mut r) = (RunHeader { dump: vec![1], profile: true, ..header() }, recorder(0.0));
    let done = e.run(&h, None, &mut states, &mut r).unwrap();
    assert_eq!(r.output, [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]);
    assert_eq!((r.dumps, r.steps), (vec![(1, vec![2, 4], r.output)], vec![1, 1]));
    assert_eq!((done.generation, done.first_nan, done.steps, e.times(1).unwrap().len()), (1, -1, 1, 1));
    assert!(done.total_ns > 0 && e.times(2).is_none() && e.memory() == 0);

    let unwanted = RunHeader { unwanted: vec![0], generation: 2, ..header() };
    let mut r = recorder(0.0);
    e.run(&unwanted, None, &mut states, &mut r).unwrap();
    assert!(r.output.is_empty() && r.steps == [1], "{:?}", r.steps);
}

#[test]
fn errors() {
    let (e, mut states) = (executable(&backend(), tiny()), States::new());
    let mut fails = |h: &RunHeader, mut r: Recorder| e.run(h, None, &mut states, &mut r).unwrap_err();
    for (first, code, text) in [
        (100.0, Code::BadInput, "it is 100 (RLX3001)"),
        (101.0, Code::Panicked, "the kernel panicked: it is 101 (RLX5111)"),
    ] {
        let err = fails(&header(), recorder(first));
        assert_eq!((err.code(), err.step(), &*err.to_string()), (code, (1, "neg"), text));
    }
    let err = fails(&RunHeader { check_nan: true, ..header() }, recorder(f32::NAN));
    assert_eq!((err.code(), err.step()), (Code::FoundNaN, (1, "neg")));
    assert_eq!(fails(&header(), Recorder { cancelled: true, ..recorder(0.0) }).code(), Code::Cancelled);
    let range = |offset, size| vec![Range { offset, size }];
    for bad in [
        RunHeader { generation: 0, ..header() },
        RunHeader { dump: vec![0], ..header() }, // an input
        RunHeader { dump: vec![2], ..header() },
        RunHeader { dump: vec![-1], ..header() },
        RunHeader { unwanted: vec![1], ..header() },
        RunHeader { unwanted: vec![0, 0], ..header() },
        RunHeader { inputs: range(4, 32), ..header() },
        RunHeader { outputs: range(256, 16), ..header() },
        RunHeader { state: 7, ..header() },
    ] {
        assert_eq!(fails(&bad, recorder(0.0)).code(), Code::Refused, "{bad:?}");
    }
    assert_eq!(
        fails(&RunHeader { syms: [("N".to_string(), 3)].into(), ..header() }, recorder(0.0)).code(),
        Code::BadInput
    );
}

#[test]
fn states() {
    let e = executable(&backend(), tiny());
    let mut states = States::new();
    states.insert(5, State { map: memory::block(512, "").unwrap(), size: 512 });
    states.get_mut(&5).unwrap().bytes()[..4].copy_from_slice(&8f32.to_le_bytes());
    let bond = |offset| vec![Transfer { tensor: 0, state: 5, offset }];
    let h = RunHeader { feeds: bond(0), keeps: bond(256), ..header() };
    e.run(&h, None, &mut states, &mut Recorder::default()).unwrap();
    assert_eq!(floats(&states.get_mut(&5).unwrap().bytes()[256..264]), [-8.0, -0.0]);
    for (feeds, keeps) in [
        (bond(4), vec![]),
        (bond(512), vec![]),
        (bond(-256), vec![]),
        ([bond(0), bond(0)].concat(), vec![]),
        (vec![], [bond(0), bond(0)].concat()),
        (vec![Transfer { tensor: -1, state: 5, offset: 0 }], vec![]),
    ] {
        let h = RunHeader { feeds, keeps, ..header() };
        let err = e.run(&h, None, &mut states, &mut recorder(0.0)).unwrap_err();
        assert_eq!(err.code(), Code::BadInput, "{h:?}");
    }
    let missing = RunHeader { feeds: vec![Transfer { tensor: 0, state: 6, offset: 0 }], ..header() };
    assert_eq!(e.run(&missing, None, &mut states, &mut recorder(0.0)).unwrap_err().code(), Code::Refused);
}

/// A loop negates x as often as `length` says, or not at all if guarded. Result 0 is x at the end, 1 after each
/// iteration.
fn looped(length: i64, guarded: bool, results: &[i64]) -> Program {
    use crate::program::{Attr, Attrs, Loop, Space};
    let mut p = tiny();
    let (mut every, mut step, mut guard) = (p.nodes[1].clone(), p.nodes[1].clone(), p.nodes[0].clone());
    let attr = |name: &str, a| (name.to_string(), a);
    let attrs = [
        attr("body", Attr::Graph(Some(0))),
        attr("cond", Attr::Graph(None)),
        attr("carried", Attr::Int(1)),
        attr("guarded", Attr::Bool(guarded)),
        attr("length", Attr::Int(length)),
        attr("results", Attr::Ints(results.to_vec())),
        attr("steps", Attr::Int(0)),
    ];
    step.attrs = Attrs(attrs.into(), Default::default());
    (step.op, step.kernel, step.name) = ("loop".into(), "loop".into(), String::new());
    (step.dtype, step.shape, step.size, step.results) = (None, vec![], 0, vec![2, 3][..results.len()].to_vec());
    (every.op, every.inputs, every.results) = ("result".into(), vec![1], vec![]);
    let mut last = every.clone();
    every.shape.insert(0, crate::dims::Dim::Number(length));
    (every.space, every.offset, every.size) = (Space::Arena, 512, 32 * length.min(5) as usize);
    (guard.op, guard.shape, guard.space, guard.offset) = ("state".into(), vec![], Space::Arena, 4096);
    (guard.size, guard.dtype) = (1, Some(crate::DType::Bool));
    if guarded {
        step.inputs.push(4);
    }
    last.name = "y".into();
    p.loops = [(1, Loop { offset: 0, cond: None, body: Arc::new(tiny()) })].into();
    p.nodes = vec![p.nodes[0].clone(), step, last, every, guard];
    if results == [0] {
        p.nodes.truncate(3);
    }
    (p.steps, p.outputs, p.arena) = (vec![1], vec![2], 8192);
    p
}

#[test]
fn loops() {
    let mut b = backend();
    assert_eq!(Steps::new(&b, Arc::new(looped(3, false, &[0, 1]))).err().unwrap().code(), Code::Unsupported);
    b.run_loops();
    let h = RunHeader { dump: vec![2, 3], ..header() };
    for (length, guarded) in [(3, false), (4, false), (1, false), (3, true)] {
        let (e, mut r) = (executable(&b, looped(length, guarded, &[0, 1])), recorder(1.0));
        e.run(&h, None, &mut States::new(), &mut r).unwrap();
        let sign = |t: i64| if t % 2 == 1 { -1.0 } else { 1.0 };
        let want = |t| r.input.iter().map(|x| x * sign(t)).collect::<Vec<f32>>();
        let rows: Vec<f32> = (1..=length).flat_map(|t| if guarded { vec![0.0; 8] } else { want(t) }).collect();
        assert_eq!(r.output, want(if guarded { 0 } else { length }), "{length} {guarded}");
        assert_eq!((r.dumps[1].1.as_slice(), &r.dumps[1].2), (&[length as usize, 2, 4][..], &rows));
    }
    let e = executable(&b, looped(3, false, &[0, 1]));
    let err = e.run(&header(), None, &mut States::new(), &mut recorder(-100.0)).unwrap_err();
    let text = "iteration 1: neg y: it is 100 (RLX3001)";
    assert_eq!((err.code(), err.step(), &*err.to_string()), (Code::BadInput, (1, "loop"), text));

    let mut wrong = looped(3, false, &[0, 1]);
    wrong.nodes[3].size = 64;
    wrong.nodes[3].shape[0] = crate::dims::Dim::Number(2);
    let err = executable(&b, wrong).run(&header(), None, &mut States::new(), &mut recorder(1.0)).unwrap_err();
    assert_eq!(&*err.to_string(), "row 2 of 32 bytes in a value of 64 (RLX9001)");
    let mut wrong = looped(3, false, &[0, 1]);
    wrong.nodes[1].inputs.push(0);
    assert_eq!(Steps::new(&b, Arc::new(wrong)).err().unwrap().code(), Code::Refused);
}

/// A run that is cancelled ends between two steps of a loop, and a long loop reports that it goes on.
#[test]
fn cancelled() {
    struct Late(Instant, usize);
    impl Caller for Late {
        fn input(&mut self, _: usize, _: &mut [u8]) -> Result<(), Error> {
            Ok(())
        }
        fn step(&mut self, _: usize) {
            self.1 += 1;
        }
        fn cancelled(&self) -> bool {
            self.0.elapsed() > 3 * PROGRESS
        }
        fn dump(&mut self, _: usize, _: &[usize], _: &[u8]) -> Result<(), Error> {
            Ok(())
        }
        fn output(&mut self, _: usize, _: &[u8]) -> Result<(), Error> {
            Ok(())
        }
    }
    let mut b = backend();
    b.run_loops();
    let (e, mut late) = (executable(&b, looped(i64::from(i32::MAX), false, &[0])), Late(Instant::now(), 0));
    let err = e.run(&header(), None, &mut States::new(), &mut late).unwrap_err();
    assert_eq!((err.code(), &*err.to_string()), (Code::Cancelled, "the run was cancelled (RLX1002)"));
    assert!(late.1 >= 3, "{} reports", late.1);
}

/// If the result shares the operand's memory, a kernel reads a copy, and an update finds the operand in the result.
#[test]
fn in_place() {
    let mut p = tiny();
    p.outputs = vec![];
    p.nodes[1].offset = 0;
    let h = RunHeader { outputs: vec![], dump: vec![1], ..header() };
    let mut update = Backend::new("t", "1");
    update
        .update("neg", "(f32)", |_, [], mut x| {
            x.slice::<f32>()?.iter_mut().for_each(|v| *v = -*v);
            Ok(())
        })
        .unwrap();
    for b in [backend(), update] {
        for (offset, copied) in [(0, 32), (16, 32), (256, 0)] {
            p.nodes[1].offset = offset;
            let (e, mut r) = (executable(&b, p.clone()), recorder(0.0));
            e.run(&h, None, &mut States::new(), &mut r).unwrap();
            assert_eq!(r.dumps[0].2, [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]);
            assert_eq!(e.memory(), copied);
        }
    }
}
