//! The example backend `loops`: plain loops, written to be correct rather than fast.
//!
//!     cargo build --release --example rlx-backend-loops
//!     rlxrun plugins test target/release/examples/rlx-backend-loops

use rlx_backend::{Attr, Attrs, Backend, DType, Device, DeviceType, Error, SetupError, View, ViewMut, serve};
use std::iter::zip;

fn main() -> Result<(), SetupError> {
    let device = Device::new("0", "plain loops of Rust", DeviceType::Cpu).feature("1 thread");
    let mut backend = Backend::new("loops", "1.0").device(device);
    elementwise(&mut backend)?;
    moves(&mut backend)?;
    products(&mut backend)?;
    backend.kernel("softmax", "(f32)", softmax)?;
    backend.update("kv_append", "(any, any, i32|i64)", kv_append)?;
    backend.run_loops();
    serve(backend)
}

/// Elementwise ops: each element of the result depends on one element of each operand.
fn elementwise(backend: &mut Backend) -> Result<(), SetupError> {
    type Unary = fn(f32) -> f32;
    let unary: [(&str, Unary); 9] = [
        ("relu", |x| if x < 0.0 { 0.0 } else { x }), // NaN stays NaN
        ("neg", |x| -x),
        ("abs", f32::abs),
        ("exp", |x| f64::from(x).exp() as f32),
        ("log", |x| f64::from(x).ln() as f32),
        ("tanh", |x| f64::from(x).tanh() as f32),
        ("sqrt", f32::sqrt),
        ("square", |x| x * x),
        ("reciprocal", |x| 1.0 / x),
    ];
    for (op, f) in unary {
        backend.update(op, "(f32)", move |_, [], mut x| {
            x.slice::<f32>()?.iter_mut().for_each(|v| *v = f(*v));
            Ok(())
        })?;
    }
    type Binary<T> = fn(T, T) -> T;
    let binary: [(&str, Binary<f32>, Binary<i32>); 5] = [
        ("add", |a, b| a + b, i32::wrapping_add),
        ("sub", |a, b| a - b, i32::wrapping_sub),
        ("mul", |a, b| a * b, i32::wrapping_mul),
        ("max", |a, b| if a > b || a.is_nan() { a } else { b }, i32::max),
        ("min", |a, b| if a < b || a.is_nan() { a } else { b }, i32::min),
    ];
    for (op, float, int) in binary {
        backend.kernel(op, "(f32...)", move |_, [a, b], [out]| broadcast(a, b, out, float))?;
        backend.kernel(op, "(i32...)", move |_, [a, b], [out]| broadcast(a, b, out, int))?;
    }
    backend.kernel("div", "(f32...)", |_, [a, b], [out]| broadcast(a, b, out, |a: f32, b| a / b))
}

/// Ops that only move elements, of any type.
fn moves(backend: &mut Backend) -> Result<(), SetupError> {
    backend.kernel("copy", "(any)", |_, [x], [mut out]| {
        out.bytes().copy_from_slice(x.bytes());
        Ok(())
    })?;
    backend.kernel("const", "() -> f32|i32|i64", |attrs, [], [mut out]| {
        let value = match attrs.get("value") {
            Some(Attr::Float(v)) => *v,
            other => return Err(Error::unsupported(format!("const: its value is {other:?}"))),
        };
        match out.dtype() {
            DType::F32 => out.slice::<f32>()?.fill(value as f32),
            DType::I32 => out.slice::<i32>()?.fill(value as i32),
            _ => out.slice::<i64>()?.fill(value as i64),
        }
        Ok(())
    })?;
    backend.kernel("transpose", "(any)", |attrs, [x], [mut out]| {
        let steps = strides(x.shape());
        let steps: Vec<_> = attrs.ints("perm")?.iter().map(|axis| steps[*axis as usize]).collect();
        let (size, shape) = (x.dtype().size(), out.shape());
        for (to, from) in zip(out.bytes().chunks_exact_mut(size), offsets(shape, steps)) {
            to.copy_from_slice(&x.bytes()[from * size..][..size]);
        }
        Ok(())
    })?;
    backend.variadic("concat", "(any...)", |attrs, operands, results| {
        let (axis, out) = (attrs.axis("axis")?, &mut results[0]);
        let row = |shape: &[usize], d: DType| shape[axis..].iter().product::<usize>() * d.size();
        let (whole, mut at) = (row(out.shape(), out.dtype()), 0);
        for x in operands {
            let part = row(x.shape(), x.dtype());
            if part > 0 {
                for (to, from) in zip(out.bytes().chunks_exact_mut(whole), x.bytes().chunks_exact(part)) {
                    to[at..at + part].copy_from_slice(from);
                }
            }
            at += part;
        }
        Ok(())
    })?;
    backend.kernel("gather", "(any, i32|i64)", |attrs, [table, idx], [mut out]| {
        let axis = attrs.axis("axis")?;
        let (n, row) =
            (table.shape()[axis], table.shape()[axis + 1..].iter().product::<usize>() * table.dtype().size());
        let rows = indices(idx)?.into_iter().map(|i| match usize::try_from(i) {
            Ok(k) if k < n => Ok(k),
            _ => Err(Error::bad_input(format!("gather: index {i} is outside 0 to {}", n as i64 - 1))),
        });
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        if row == 0 || rows.is_empty() {
            return Ok(());
        }
        for (to, from) in zip(out.bytes().chunks_exact_mut(rows.len() * row), table.bytes().chunks_exact(n * row)) {
            for (to, k) in zip(to.chunks_exact_mut(row), &rows) {
                to.copy_from_slice(&from[k * row..][..row]);
            }
        }
        Ok(())
    })
}

/// Matrix products, alone and with the ops that often follow them: one pass over memory instead of three.
fn products(backend: &mut Backend) -> Result<(), SetupError> {
    backend.kernel("matmul", "(f32, f32)", |attrs, [a, b], [mut out]| matmul(attrs, a, b, &mut out, |_, sum| sum))?;
    backend.variadic("fused_matmul", r#"(f32, f32, bias: f32) if act = ""|"relu""#, |attrs, operands, results| {
        let bias = attrs.optional("bias").map(|k| operands[k].slice::<f32>()).transpose()?;
        let relu = attrs.str("act")? == "relu";
        matmul(attrs, operands[0], operands[1], &mut results[0], |column, sum| {
            let y = sum + bias.map_or(0.0, |b| f64::from(b[column]));
            if relu && y < 0.0 { 0.0 } else { y }
        })
    })
}

/// Matrix products over the last two axes, summed in f64. `end` computes the result from an element of the sum and its
/// column.
fn matmul(
    attrs: &Attrs,
    a: View<'_>,
    b: View<'_>,
    out: &mut ViewMut<'_>,
    end: impl Fn(usize, f64) -> f64,
) -> Result<(), Error> {
    let (batch, [m, n]) = split(out.shape());
    let ((batch_a, dims_a), (batch_b, dims_b)) = (split(a.shape()), split(b.shape()));
    let (trans_a, trans_b) = (attrs.bool("trans_a")?, attrs.bool("trans_b")?);
    let k = dims_a[usize::from(!trans_a)];
    let ((row_a, step_a), (step_b, column_b)) = (turned(trans_a, dims_a[1]), turned(trans_b, dims_b[1]));
    let (each_a, each_b) = (offsets(batch, repeated(batch_a, batch)), offsets(batch, repeated(batch_b, batch)));
    let (a, b) = (a.slice::<f32>()?, b.slice::<f32>()?);
    if m * n == 0 {
        return Ok(());
    }
    for ((c, at_a), at_b) in zip(zip(out.slice::<f32>()?.chunks_exact_mut(m * n), each_a), each_b) {
        let (a, b) = (&a[at_a * m * k..], &b[at_b * k * n..]);
        for (i, c) in c.iter_mut().enumerate() {
            let term = |j| f64::from(a[i / n * row_a + j * step_a]) * f64::from(b[j * step_b + i % n * column_b]);
            *c = end(i % n, (0..k).map(term).sum()) as f32;
        }
    }
    Ok(())
}

/// exp(x - m) / sum of exp(x - m) along an axis, where m is the maximum along that axis.
fn softmax(attrs: &Attrs, [x]: [View<'_>; 1], [mut out]: [ViewMut<'_>; 1]) -> Result<(), Error> {
    let (axis, shape) = (attrs.axis("axis")?, x.shape());
    let (n, step) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let (x, out) = (x.slice::<f32>()?, out.slice::<f32>()?);
    for first in (0..x.len()).filter(|i| i / step % n == 0) {
        let row = || (0..n).map(|i| first + i * step);
        let most = row().map(|i| x[i]).fold(f32::NEG_INFINITY, f32::max);
        let power = |i: usize| (f64::from(x[i]) - f64::from(most)).exp();
        let sum: f64 = row().map(power).sum();
        row().for_each(|i| out[i] = (power(i) / sum) as f32);
    }
    Ok(())
}

/// Writes rows into a state. The state is operand and result in one place.
fn kv_append(attrs: &Attrs, [rows, pos]: [View<'_>; 2], mut state: ViewMut<'_>) -> Result<(), Error> {
    let axis = attrs.axis("axis")?;
    let (have, new) = (state.shape()[axis], rows.shape()[axis]);
    let mut places = Vec::new(); // one place, or one per sequence
    for at in indices(pos)? {
        let Some(at) = usize::try_from(at).ok().filter(|at| *at <= have && new <= have - at) else {
            return Err(Error::bad_input(format!("kv_append: {new} rows at {at} of {have}")));
        };
        places.push(at);
    }
    let row = rows.shape()[axis + 1..].iter().product::<usize>() * rows.dtype().size();
    if new * row == 0 {
        return Ok(());
    }
    // A sequence has a chunk per index of the axes between axis 0, its own, and `axis`.
    let chunks = if axis == 0 { 1 } else { rows.shape()[1..axis].iter().product::<usize>() };
    for (i, (to, from)) in
        zip(state.bytes().chunks_exact_mut(have * row), rows.bytes().chunks_exact(new * row)).enumerate()
    {
        let at = places[i / chunks % places.len()];
        to[at * row..][..from.len()].copy_from_slice(from);
    }
    Ok(())
}

/// z = f(a, b) with NumPy broadcasting.
fn broadcast<T: rlx_backend::Element>(
    a: View<'_>,
    b: View<'_>,
    mut out: ViewMut<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let shape = out.shape();
    let (of_a, of_b) = (offsets(shape, repeated(a.shape(), shape)), offsets(shape, repeated(b.shape(), shape)));
    let (a, b) = (a.slice::<T>()?, b.slice::<T>()?);
    for (z, (i, j)) in zip(out.slice::<T>()?, zip(of_a, of_b)) {
        *z = f(a[i], b[j]);
    }
    Ok(())
}

fn indices(v: View<'_>) -> Result<Vec<i64>, Error> {
    match v.dtype() {
        DType::I32 => Ok(v.slice::<i32>()?.iter().map(|i| i64::from(*i)).collect()),
        _ => Ok(v.slice::<i64>()?.to_vec()),
    }
}

/// The leading axes, and the last two.
fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (lead, last) = shape.split_at(shape.len() - 2);
    (lead, [last[0], last[1]])
}

/// The distance, in elements, between rows and between columns of a matrix, which may be stored transposed.
fn turned(is: bool, width: usize) -> (usize, usize) {
    if is { (1, width) } else { (width, 1) }
}

/// The distance, in elements, between neighbouring indices of each axis.
fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect()
}

/// The strides of a shape that is broadcast to another: 0 along the axes that it lacks or that have size 1.
fn repeated(shape: &[usize], to: &[usize]) -> Vec<usize> {
    let mut out = vec![0; to.len()];
    for (i, (step, n)) in zip(strides(shape), shape).enumerate() {
        out[to.len() - shape.len() + i] = if *n == 1 { 0 } else { step };
    }
    out
}

/// The offset of each element of a shape with these strides, in order.
fn offsets(shape: &[usize], steps: Vec<usize>) -> impl Iterator<Item = usize> + use<> {
    let axes: Vec<_> = zip(zip(strides(shape), shape.to_vec()), steps).collect();
    (0..shape.iter().product()).map(move |i| axes.iter().map(|((every, n), step)| i / every % n * step).sum())
}
