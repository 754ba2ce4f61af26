//! Rules of a target description state which nodes a kernel runs. The language is that of spec/target.md without
//! `parts`.

use crate::dims::Dim;
use crate::program::{Attr, Node, Program};
use crate::view::DType;
use std::collections::BTreeMap;

/// One rule of an op.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    operands: Vec<Operand>,
    optional: BTreeMap<String, Operand>, // by name
    more: bool,                          // operands that are not listed are like the last of `operands`
    results: Vec<Operand>,
    conditions: Vec<Condition>,
}

/// The requirements on an operand or a result.
#[derive(Debug, Clone, PartialEq)]
struct Operand {
    types: Types,
    rank: (usize, usize),
    is_static: bool,
    param: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Types {
    Any,
    /// One of the types; None stands for the type of operand 0.
    OneOf(Vec<Option<DType>>),
}

#[derive(Debug, Clone, PartialEq)]
enum Condition {
    /// The attribute has one of the values.
    Is(String, Vec<Want>),
    /// The attribute, or every element of it, is at most that number.
    AtMost(String, f64),
    AtLeast(String, f64),
    /// The attribute is the last axis of operand 0.
    Last(String),
    Broadcast(Broadcast),
}

#[derive(Debug, Clone, PartialEq)]
enum Want {
    Bool(bool),
    Number(f64),
    Str(String),
    Ints(Vec<i64>),
    DType(DType),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Broadcast {
    Suffix,
    Scalar,
    Equal,
}

impl Rule {
    /// Parses a rule without its op: `(f32, i32|i64) -> f32 if axis = 0 and keep = true`. The error is the reason.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let inside = text.strip_prefix('(').and_then(|t| t.split_once(')'));
        let Some((operands, rest)) = inside else {
            return Err("want (OPERAND, ...) -> RESULT if CONDITION and ...".into());
        };
        let (rest, conditions) = match rest.split_once(" if ") {
            Some((rest, c)) => (rest, split(c, " and ").into_iter().map(condition).collect::<Result<_, _>>()?),
            None => (rest, Vec::new()),
        };
        let results = match rest.trim() {
            "" => Vec::new(),
            r => list(r.strip_prefix("->").ok_or(format!("found {r:?}; want -> or if"))?)?,
        };
        let (mut required, mut optional, mut more) = (Vec::new(), BTreeMap::new(), false);
        for text in operands.split(',').filter(|_| !operands.trim().is_empty()) {
            if let Some((name, text)) = text.split_once(':') {
                optional.insert(name.trim().to_string(), operand(text)?);
            } else if more || !optional.is_empty() {
                return Err("an operand without a name follows ... or one with a name".into());
            } else {
                more = text.trim_end().ends_with("...");
                required.push(operand(text.trim_end().trim_end_matches("..."))?);
            }
        }
        Ok(Rule { operands: required, optional, more, results, conditions })
    }

    /// Whether the rule allows a node.
    pub fn takes(&self, p: &Program, n: &Node) -> bool {
        let first = n.inputs.first().and_then(|x| p.nodes[*x].dtype);
        let fits = |o: &Operand, x: usize| o.takes(p, x, first);
        let like = |list: &[Operand], k: usize| list[k.min(list.len() - 1)].clone();
        let named = &n.attrs.1; // the indices of optional operands
        let required = n.inputs.len() - named.len();
        (self.more || required <= self.operands.len())
            && n.inputs[..required].iter().enumerate().all(|(k, x)| fits(&like(&self.operands, k), *x))
            && named.iter().all(|(name, k)| match self.optional.get(name) {
                Some(o) => fits(o, n.inputs[*k]),
                None => self.more && fits(&like(&self.operands, *k), n.inputs[*k]),
            })
            && (self.results.is_empty() || n.results.iter().enumerate().all(|(k, r)| fits(&like(&self.results, k), *r)))
            && self.conditions.iter().all(|c| c.holds(p, n))
    }
}

impl Operand {
    fn takes(&self, p: &Program, node: usize, first: Option<DType>) -> bool {
        let n = &p.nodes[node];
        let typed = match &self.types {
            Types::Any => true,
            Types::OneOf(list) => list.iter().any(|t| t.or(first) == n.dtype),
        };
        typed
            && (self.rank.0..=self.rank.1).contains(&n.shape.len())
            && (!self.is_static || n.is_static())
            && (!self.param || p.is_param(node))
    }
}

impl Condition {
    fn holds(&self, p: &Program, n: &Node) -> bool {
        let every = |name: &str, ok: &dyn Fn(f64) -> bool| match n.attrs.get(name) {
            Some(Attr::Int(v)) => ok(*v as f64),
            Some(Attr::Float(v)) => ok(*v),
            Some(Attr::Ints(list)) => list.iter().all(|v| ok(*v as f64)),
            _ => false,
        };
        match self {
            Condition::Is(name, want) => n.attrs.get(name).is_some_and(|v| want.iter().any(|w| w.is(v))),
            Condition::AtMost(name, most) => every(name, &|v| v <= *most),
            Condition::AtLeast(name, least) => every(name, &|v| v >= *least),
            Condition::Last(name) => {
                let Some(x) = n.inputs.first() else { return false };
                let last = p.nodes[*x].shape.len() as i64 - 1;
                match n.attrs.get(name) {
                    Some(Attr::Int(v)) => *v == last,
                    Some(Attr::Ints(v)) => v[..] == [last],
                    _ => false,
                }
            }
            Condition::Broadcast(how) => match n.results.first() {
                Some(r) => n.inputs.iter().all(|x| how.holds(&p.nodes[*x].shape, &p.nodes[*r].shape)),
                None => false,
            },
        }
    }
}

impl Broadcast {
    fn holds(self, operand: &[Dim], result: &[Dim]) -> bool {
        let is_one = |d: &Dim| *d == Dim::Number(1);
        let shown = &operand[operand.iter().take_while(|d| is_one(d)).count()..];
        operand == result
            || self != Broadcast::Equal && operand.iter().all(is_one)
            || self == Broadcast::Suffix && result.ends_with(shown)
    }
}

impl Want {
    fn is(&self, have: &Attr) -> bool {
        match (self, have) {
            (Want::Bool(w), Attr::Bool(h)) => w == h,
            (Want::Number(w), Attr::Int(h)) => *w == *h as f64,
            (Want::Number(w), Attr::Float(h)) => w == h,
            // "elu" also means elu(alpha=1.0).
            (Want::Str(w), Attr::Str(h)) => {
                h.strip_prefix(w.as_str()).is_some_and(|rest| rest.is_empty() || !w.is_empty() && rest.starts_with('('))
            }
            (Want::Ints(w), Attr::Ints(h)) => w == h,
            (Want::DType(w), Attr::DType(h)) => Some(*w) == *h,
            _ => false,
        }
    }
}

/// Splits at a separator outside quotes and brackets.
fn split<'a>(text: &'a str, at: &str) -> Vec<&'a str> {
    let (mut out, mut begin, mut quoted, mut depth) = (Vec::new(), 0, false, 0);
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ if !quoted && depth == 0 && i >= begin && text[i..].starts_with(at) => {
                out.push(&text[begin..i]);
                begin = i + at.len();
            }
            _ => {}
        }
    }
    out.push(&text[begin..]);
    out
}

fn list(text: &str) -> Result<Vec<Operand>, String> {
    text.split(',').map(operand).collect()
}

fn operand(text: &str) -> Result<Operand, String> {
    let mut words = text.split_whitespace();
    let types = match words.next() {
        None => return Err("an operand is empty; () is a rule without operands".into()),
        Some("any") => Types::Any,
        Some(list) => Types::OneOf(
            list.split('|')
                .map(|t| match (t, DType::parse(t)) {
                    ("same", _) => Ok(None),
                    (_, Some(d)) => Ok(Some(d)),
                    _ => Err(format!("found {t:?}; want an element type, any or same")),
                })
                .collect::<Result<_, _>>()?,
        ),
    };
    let mut o = Operand { types, rank: (0, usize::MAX), is_static: false, param: false };
    while let Some(word) = words.next() {
        match word {
            "rank" => {
                let range = words.next().unwrap_or_default();
                let (low, high) = range.split_once("..").unwrap_or((range, range));
                o.rank = match (low.parse(), high.parse()) {
                    (Ok(low), Ok(high)) if low <= high => (low, high),
                    _ => return Err(format!("rank {range:?}; want rank 4 or rank 2..4")),
                };
            }
            "static" => o.is_static = true,
            "param" => o.param = true,
            _ => return Err(format!("found {word:?}; want rank, static or param")),
        }
    }
    Ok(o)
}

fn condition(text: &str) -> Result<Condition, String> {
    let text = text.trim();
    let how = text.find(['=', '<', '>']).ok_or(format!("condition {text:?} has no =, <= or >="))?;
    let name = text[..how].trim();
    if name.is_empty() || !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_') {
        return Err(format!("condition {text:?} is about no attribute"));
    }
    let number = |t: &str| t.trim().parse().map_err(|_| format!("condition {text:?}: want a number"));
    if let Some(t) = text[how..].strip_prefix("<=") {
        return Ok(Condition::AtMost(name.into(), number(t)?));
    }
    if let Some(t) = text[how..].strip_prefix(">=") {
        return Ok(Condition::AtLeast(name.into(), number(t)?));
    }
    let Some(values) = text[how..].strip_prefix('=').map(str::trim) else {
        return Err(format!("condition {text:?}: want =, <= or >="));
    };
    match (name, values) {
        ("broadcast", "suffix") => Ok(Condition::Broadcast(Broadcast::Suffix)),
        ("broadcast", "scalar") => Ok(Condition::Broadcast(Broadcast::Scalar)),
        ("broadcast", "equal") => Ok(Condition::Broadcast(Broadcast::Equal)),
        ("broadcast", _) => Err(format!("condition {text:?}: want suffix, scalar or equal")),
        ("parts", _) => Err("this crate does not evaluate parts: list the ops that it would name".into()),
        (_, "last") => Ok(Condition::Last(name.into())),
        _ => Ok(Condition::Is(name.into(), split(values, "|").into_iter().map(want).collect::<Result<_, _>>()?)),
    }
}

fn want(text: &str) -> Result<Want, String> {
    let text = text.trim();
    let fail = || {
        format!("found {text:?}; want a number, true, false, a quoted string, a list of integers or an element type")
    };
    if let Some(s) = text.strip_prefix('"') {
        return s.strip_suffix('"').filter(|s| !s.contains(['"', '\\'])).map(|s| Want::Str(s.into())).ok_or_else(fail);
    }
    if let Some(s) = text.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
        let items = s.split(',').filter(|s| !s.trim().is_empty());
        return items.map(|i| i.trim().parse().map_err(|_| fail())).collect::<Result<_, _>>().map(Want::Ints);
    }
    match (text, DType::parse(text), text.parse()) {
        ("true" | "false", ..) => Ok(Want::Bool(text == "true")),
        (_, Some(d), _) => Ok(Want::DType(d)),
        (_, _, Ok(x)) => Ok(Want::Number(x)),
        _ => Err(fail()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::tiny;
    use proptest::prelude::*;

    #[test]
    fn takes() {
        let p = tiny();
        for (text, takes) in [
            ("(f32)", true),
            ("(f32|f64...)", true),
            ("(f64)", false),
            ("(any rank 2) -> same", true),
            ("(f32) -> f32 if broadcast = equal", true),
            ("(f32 rank 3..4)", false),
            ("(f32 static)", false),
            ("(f32 param)", false),
            ("()", false),
            ("(f32) if axis = 1", false),
        ] {
            assert_eq!(Rule::parse(text).unwrap().takes(&p, &p.nodes[1]), takes, "{text}");
        }
    }

    #[test]
    fn optional() {
        let mut p = tiny();
        p.nodes[1].inputs.push(0);
        p.nodes[1].attrs.1.insert("bias".into(), 1);
        for (text, takes) in [
            ("(f32)", false),
            ("(f32, bias: f32)", true),
            ("(f32, bias: f64)", false),
            ("(f32, other: f32)", false),
            ("(f32...)", true),
            ("(f32..., bias: f64)", false),
        ] {
            assert_eq!(Rule::parse(text).unwrap().takes(&p, &p.nodes[1]), takes, "{text}");
        }
        assert!(Rule::parse("(bias: f32, f32)").is_err() && Rule::parse("(f32..., f32)").is_err());
    }

    #[test]
    fn conditions() {
        for (want, have, is) in [
            ("1", Attr::Int(1), true),
            ("1", Attr::Bool(true), false),
            ("\"\"", Attr::Str("".into()), true),
            ("\"\"", Attr::Str("relu".into()), false),
            ("\"elu\"", Attr::Str("elu(alpha=1.0)".into()), true),
            ("\"elu\"", Attr::Str("elusive".into()), false),
            ("[0,2,1]", Attr::Ints(vec![0, 2, 1]), true),
            ("i32", Attr::DType(Some(DType::I32)), true),
            ("0.5", Attr::Float(0.5), true),
        ] {
            assert_eq!(super::want(want).unwrap().is(&have), is, "{want} {have:?}");
        }
        let (n, one) = (Dim::Symbol("N".into()), Dim::Number(1));
        let (two, shape) = (Dim::Number(2), [Dim::Number(2), n.clone()]);
        assert!(Broadcast::Suffix.holds(&[one.clone(), n.clone()], &shape) && Broadcast::Suffix.holds(&[], &shape));
        assert!(!Broadcast::Suffix.holds(&[two, one.clone()], &shape) && !Broadcast::Scalar.holds(&[n], &shape));
        assert!(
            Broadcast::Scalar.holds(&[one.clone(), one.clone()], &shape)
                && !Broadcast::Equal.holds(&[one.clone(), one], &shape)
        );
    }

    #[test]
    fn refuses() {
        for text in [
            "f32",
            "(f32 big)",
            "(f33)",
            "(f32) if parts = run",
            "(f32) if x",
            "(f32) if x = ",
            "(f32) if x = \"a",
            "(f32,)",
            "(f32) f32",
            "(f32 rank)",
        ] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
        assert!(Rule::parse("(f32) if act = \"a|b\"|\"x and y\" and axis = last").is_ok());
    }

    proptest! {
        #[test]
        fn hostile(text in "[(](f32|any|same|rank|1|[.,|=<>\" \\[\\])-]|if|and|é){0,20}") {
            let _ = Rule::parse(&text);
        }
    }
}
