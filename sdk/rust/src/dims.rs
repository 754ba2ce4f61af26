//! Sizes: numbers and expressions of symbols, such as 2*N+3 or (N+7)/8. See spec/format.md, "Dims".

use crate::error::Error;
use std::collections::BTreeMap;

/// The sizes of a run, by symbol.
pub type Sizes = BTreeMap<String, i64>;

/// Bound on nested parentheses. Divisions nest at most 4 deep, and only their numerators and quotients have
/// parentheses.
const MAX_DEPTH: usize = 16;

/// A size of a tensor. Sizes that are always equal compare equal, because each has one canonical form.
#[derive(Debug, Clone, PartialEq)]
pub enum Dim {
    Number(i64),
    Symbol(String),
    /// Terms; `true` marks those that are subtracted.
    Sum(Vec<(bool, Dim)>),
    Product(Box<Dim>, Box<Dim>),
    /// Rounds towards minus infinity.
    Quotient(Box<Dim>, i64),
}

impl Dim {
    pub fn parse(text: &str) -> Result<Dim, Error> {
        let mut p = Parser { text, at: 0 };
        let d = p.dim(0)?;
        if p.at != text.len() { p.fail("something follows its end") } else { Ok(d) }
    }

    /// The size, or None if it overflows.
    pub fn eval(&self, sizes: &Sizes) -> Option<i64> {
        match self {
            Dim::Number(n) => Some(*n),
            Dim::Symbol(s) => sizes.get(s).copied(),
            Dim::Product(a, b) => a.eval(sizes)?.checked_mul(b.eval(sizes)?),
            Dim::Quotient(a, by) => Some(a.eval(sizes)?.div_euclid(*by)),
            Dim::Sum(terms) => terms.iter().try_fold(0i64, |sum, (minus, d)| {
                let v = d.eval(sizes)?;
                if *minus { sum.checked_sub(v) } else { sum.checked_add(v) }
            }),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, why: &str) -> Result<T, Error> {
        Err(Error::refused(format!("dim {:?}, character {}: {why}", self.text, self.at + 1)))
    }

    /// Consumes the next character if it is in the set.
    fn one_of(&mut self, set: &[u8]) -> Option<u8> {
        let c = *self.text.as_bytes().get(self.at)?;
        set.contains(&c).then(|| {
            self.at += 1;
            c
        })
    }

    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let n = rest.bytes().take_while(|c| belongs(*c)).count();
        self.at += n;
        &rest[..n]
    }

    fn number(&mut self) -> Result<i64, Error> {
        match self.word(|c| c.is_ascii_digit()).parse() {
            Ok(n) if n <= 1 << 44 => Ok(n),
            _ => self.fail("want a number up to 2^44"),
        }
    }

    fn dim(&mut self, depth: usize) -> Result<Dim, Error> {
        if depth > MAX_DEPTH {
            return self.fail("parentheses are nested too deep");
        }
        let mut terms = Vec::new();
        let mut minus = self.one_of(b"-").is_some();
        loop {
            terms.push((minus, self.product(depth)?));
            match self.one_of(b"+-") {
                Some(c) => minus = c == b'-',
                None => break,
            }
        }
        match terms.pop() {
            Some((false, only)) if terms.is_empty() => Ok(only),
            last => {
                terms.extend(last);
                Ok(Dim::Sum(terms))
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<Dim, Error> {
        let mut d = self.operand(depth)?;
        for factors in 0.. {
            d = match self.one_of(b"*/") {
                None => break,
                Some(_) if factors > 32 => return self.fail("a product of more than 32 factors"),
                Some(b'*') => Dim::Product(Box::new(d), Box::new(self.operand(depth)?)),
                Some(_) => match self.number()? {
                    0 => return self.fail("a division by 0"),
                    by => Dim::Quotient(Box::new(d), by),
                },
            };
        }
        Ok(d)
    }

    fn operand(&mut self, depth: usize) -> Result<Dim, Error> {
        match self.text.as_bytes().get(self.at) {
            Some(b'(') => {
                self.at += 1;
                let d = self.dim(depth + 1)?;
                if self.one_of(b")").is_none() { self.fail("want a )") } else { Ok(d) }
            }
            Some(c) if c.is_ascii_digit() => Ok(Dim::Number(self.number()?)),
            Some(c) if c.is_ascii_alphabetic() || *c == b'_' => {
                Ok(Dim::Symbol(self.word(|c| c.is_ascii_alphanumeric() || c == b'_').into()))
            }
            _ => self.fail("want a number, a symbol or a ("),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values() {
        for (text, sizes, want) in [
            ("2*N+3", &[("N", 4)][..], 11),
            ("(N+7)/8", &[("N", 9)], 2),
            ("-N+8", &[("N", 3)], 5),
            ("B*S", &[("B", 3), ("S", 5)], 15),
            ("(-N+1)/2", &[("N", 4)], -2),
            ("2*(N/8)+1", &[("N", 17)], 5),
            ("N-1", &[("N", 17)], 16),
        ] {
            let sizes = sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect();
            assert_eq!(Dim::parse(text).unwrap().eval(&sizes), Some(want), "{text}");
        }
        let huge = [("N".to_string(), 1 << 40)].into();
        assert_eq!(Dim::parse("N*N").unwrap().eval(&huge), None);
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "N+",
            "2 * N",
            "(N",
            "N)",
            "N//2",
            "*N",
            "N N",
            "N/0",
            "N/M",
            "é",
            "99999999999999",
            &"(".repeat(1 << 20),
        ] {
            assert!(Dim::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn hostile(text in "[NM0-9+*/()-]{0,40}", n in any::<i64>()) {
            if let Ok(d) = Dim::parse(&text) {
                let _ = d.eval(&[("N".to_string(), n), ("M".to_string(), -n.saturating_abs())].into());
            }
        }
    }
}
