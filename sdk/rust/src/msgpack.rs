//! The subset of msgpack that encodes programs: spec/format.md, "The rlx-msgpack profile".

use crate::error::Error;

const MAX_DEPTH: usize = 16;
const MAX_VALUES: usize = 1 << 25;

/// A value of the profile.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Bin(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// Decodes exactly one value. It accepts only the canonical form, so encoding the value gives the same bytes.
pub fn decode(data: &[u8]) -> Result<Value, Error> {
    let mut r = Reader { data, at: 0, values: 0 };
    let v = r.value(0)?;
    match data.len() - r.at {
        0 => Ok(v),
        n => Err(Error::refused(format!("msgpack: {n} bytes follow the value"))),
    }
}

impl Value {
    /// The value of a key in a map.
    pub fn get(&self, key: &str) -> Result<&Value, Error> {
        let Value::Map(m) = self else { return Err(self.wrong("a map")) };
        match m.binary_search_by(|(k, _)| k.as_str().cmp(key)) {
            Ok(i) => Ok(&m[i].1),
            Err(_) => Err(Error::refused(format!("a map has no {key:?}"))),
        }
    }

    pub fn array(&self) -> Result<&[Value], Error> {
        match self {
            Value::Array(a) => Ok(a),
            _ => Err(self.wrong("an array")),
        }
    }

    /// The items of an array with exactly N items.
    pub fn tuple<const N: usize>(&self) -> Result<&[Value; N], Error> {
        let a = self.array()?;
        a.try_into().map_err(|_| Error::refused(format!("an array has {} items; want {N}", a.len())))
    }

    pub fn str(&self) -> Result<&str, Error> {
        match self {
            Value::Str(s) => Ok(s),
            _ => Err(self.wrong("a string")),
        }
    }

    pub fn int(&self) -> Result<i64, Error> {
        match self {
            Value::Int(n) => Ok(*n),
            _ => Err(self.wrong("an integer")),
        }
    }

    /// An integer that is not negative.
    pub fn size(&self) -> Result<usize, Error> {
        usize::try_from(self.int()?).map_err(|_| self.wrong("0 or more"))
    }

    fn wrong(&self, want: &str) -> Error {
        let found = match self {
            Value::Bool(b) => b.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Str(_) => "a string".into(),
            Value::Bin(_) => "bytes".into(),
            Value::Array(_) => "an array".into(),
            Value::Map(_) => "a map".into(),
        };
        Error::refused(format!("found {found}; want {want}"))
    }
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, what: impl std::fmt::Display) -> Result<T, Error> {
        Err(Error::refused(format!("msgpack: byte {}: {what}", self.at)))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let Some(b) = self.data[self.at..].get(..n) else { return self.fail("the data ends in the middle of a value") };
        self.at += n;
        Ok(b)
    }

    /// A big-endian number of n bytes. It must exceed `below`, the largest number that fits fewer bytes.
    fn number(&mut self, n: usize, below: u64) -> Result<u64, Error> {
        let v = self.take(n)?.iter().fold(0, |v, b| v << 8 | u64::from(*b));
        if v <= below { self.fail(format!("{v} has a shorter form")) } else { Ok(v) }
    }

    /// A negative integer of n bytes. It must be less than `above`, the least number that fits the next shorter form.
    fn negative(&mut self, n: usize, above: i64) -> Result<Value, Error> {
        let shift = 64 - 8 * n as u32;
        let raw = self.take(n)?.iter().fold(0, |v, b| v << 8 | u64::from(*b));
        let v = (raw << shift) as i64 >> shift;
        if v >= above { self.fail(format!("{v} has a shorter form")) } else { Ok(Value::Int(v)) }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.fail(format!("more than {MAX_VALUES} values"));
        }
        let b = self.take(1)?[0];
        Ok(match b {
            0x00..=0x7f => Value::Int(b.into()),
            0x80..=0x8f => return self.map((b & 0x0f).into(), depth),
            0x90..=0x9f => return self.items((b & 0x0f).into(), depth),
            0xa0..=0xbf => return self.text((b & 0x1f).into()),
            0xc2 | 0xc3 => Value::Bool(b == 0xc3),
            0xc4 => self.bin(1, None)?,
            0xc5 => self.bin(2, Some(0xff))?,
            0xc6 => self.bin(4, Some(0xffff))?,
            0xcb => {
                let x = f64::from_bits(self.take(8)?.iter().fold(0, |v, b| v << 8 | u64::from(*b)));
                if x.is_nan() {
                    return self.fail("a NaN");
                }
                Value::Float(x)
            }
            0xcc => Value::Int(self.number(1, 0x7f)? as i64),
            0xcd => Value::Int(self.number(2, 0xff)? as i64),
            0xce => Value::Int(self.number(4, 0xffff)? as i64),
            0xcf => {
                let n = self.number(8, 0xffff_ffff)?;
                match i64::try_from(n) {
                    Ok(n) => Value::Int(n),
                    Err(_) => return self.fail(format!("{n} is beyond the integers of a program")),
                }
            }
            0xd0 => self.negative(1, -32)?,
            0xd1 => self.negative(2, i8::MIN.into())?,
            0xd2 => self.negative(4, i16::MIN.into())?,
            0xd3 => self.negative(8, i32::MIN.into())?,
            0xd9 => {
                let n = self.number(1, 31)?;
                self.text(n)?
            }
            0xda => {
                let n = self.number(2, 0xff)?;
                self.text(n)?
            }
            0xdb => {
                let n = self.number(4, 0xffff)?;
                self.text(n)?
            }
            0xdc => {
                let n = self.number(2, 15)?;
                self.items(n, depth)?
            }
            0xdd => {
                let n = self.number(4, 0xffff)?;
                self.items(n, depth)?
            }
            0xde => {
                let n = self.number(2, 15)?;
                self.map(n, depth)?
            }
            0xdf => {
                let n = self.number(4, 0xffff)?;
                self.map(n, depth)?
            }
            0xe0..=0xff => Value::Int((b as i8).into()),
            0xc0 | 0xc1 | 0xc7..=0xca | 0xd4..=0xd8 => {
                return self.fail(format!("{b:#x} does not begin a value of the profile"));
            }
        })
    }

    fn bin(&mut self, digits: usize, below: Option<u64>) -> Result<Value, Error> {
        let n = match below {
            None => self.take(digits)?[0].into(),
            Some(below) => self.number(digits, below)?,
        };
        Ok(Value::Bin(self.take(n as usize)?.to_vec()))
    }

    fn text(&mut self, n: u64) -> Result<Value, Error> {
        match std::str::from_utf8(self.take(n as usize)?) {
            Ok(s) => Ok(Value::Str(s.into())),
            Err(e) => self.fail(e),
        }
    }

    /// The depth of the items in an array or map with n items. Each item takes at least a byte, so the data bounds the
    /// memory.
    fn inside(&self, n: u64, depth: usize) -> Result<usize, Error> {
        if depth == MAX_DEPTH {
            return self.fail(format!("values are nested more than {MAX_DEPTH} deep"));
        }
        if n > (self.data.len() - self.at) as u64 {
            return self.fail(format!("{n} items in {} bytes", self.data.len() - self.at));
        }
        Ok(depth + 1)
    }

    fn items(&mut self, n: u64, depth: usize) -> Result<Value, Error> {
        let depth = self.inside(n, depth)?;
        let mut out = Vec::new();
        for _ in 0..n {
            out.push(self.value(depth)?);
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, n: u64, depth: usize) -> Result<Value, Error> {
        let depth = self.inside(n, depth)?;
        let mut out: Vec<(String, Value)> = Vec::new();
        for _ in 0..n {
            let Value::Str(key) = self.value(depth)? else { return self.fail("a key is no string") };
            if out.last().is_some_and(|(last, _)| *last >= key) {
                return self.fail(format!("key {key:?} is not after the one before it"));
            }
            let v = self.value(depth)?;
            out.push((key, v));
        }
        Ok(Value::Map(out))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The one encoding of a value.
    pub(crate) fn encode(v: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, v);
        out
    }

    fn head(out: &mut Vec<u8>, n: usize, fix: Option<(u8, usize)>, sized: [Option<u8>; 3]) {
        match (fix, sized) {
            (Some((tag, most)), _) if n <= most => out.push(tag | n as u8),
            (_, [Some(tag), ..]) if n <= 0xff => out.extend([tag, n as u8]),
            (_, [_, Some(tag), _]) if n <= 0xffff => {
                out.push(tag);
                out.extend((n as u16).to_be_bytes());
            }
            (_, [.., tag]) => {
                out.push(tag.unwrap());
                out.extend((n as u32).to_be_bytes());
            }
        }
    }

    fn put(out: &mut Vec<u8>, v: &Value) {
        match v {
            Value::Bool(b) => out.push(0xc2 | u8::from(*b)),
            Value::Float(x) => {
                out.push(0xcb);
                out.extend(x.to_be_bytes());
            }
            Value::Int(n) => match *n {
                -32..=127 => out.push(*n as u8),
                128..=0xff => out.extend([0xcc, *n as u8]),
                0x100..=0xffff => {
                    out.push(0xcd);
                    out.extend((*n as u16).to_be_bytes());
                }
                0x1_0000..=0xffff_ffff => {
                    out.push(0xce);
                    out.extend((*n as u32).to_be_bytes());
                }
                0x1_0000_0000.. => {
                    out.push(0xcf);
                    out.extend(n.to_be_bytes());
                }
                -0x80..=-33 => out.extend([0xd0, *n as u8]),
                -0x8000..=-0x81 => {
                    out.push(0xd1);
                    out.extend((*n as i16).to_be_bytes());
                }
                -0x8000_0000..=-0x8001 => {
                    out.push(0xd2);
                    out.extend((*n as i32).to_be_bytes());
                }
                _ => {
                    out.push(0xd3);
                    out.extend(n.to_be_bytes());
                }
            },
            Value::Str(s) => {
                head(out, s.len(), Some((0xa0, 31)), [Some(0xd9), Some(0xda), Some(0xdb)]);
                out.extend(s.as_bytes());
            }
            Value::Bin(b) => {
                head(out, b.len(), None, [Some(0xc4), Some(0xc5), Some(0xc6)]);
                out.extend(b);
            }
            Value::Array(a) => {
                head(out, a.len(), Some((0x90, 15)), [None, Some(0xdc), Some(0xdd)]);
                a.iter().for_each(|v| put(out, v));
            }
            Value::Map(m) => {
                head(out, m.len(), Some((0x80, 15)), [None, Some(0xde), Some(0xdf)]);
                for (k, v) in m {
                    put(out, &Value::Str(k.clone()));
                    put(out, v);
                }
            }
        }
    }

    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-70_000i64..70_000).prop_map(Value::Int),
            any::<f64>().prop_filter("no NaN", |x| !x.is_nan()).prop_map(Value::Float),
            "\\PC{0,40}".prop_map(Value::Str),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bin),
        ];
        leaf.prop_recursive(4, 64, 20, |v| {
            prop_oneof![
                prop::collection::vec(v.clone(), 0..20).prop_map(Value::Array),
                prop::collection::btree_map("[a-z]{0,4}", v, 0..20).prop_map(|m| Value::Map(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn round_trip(v in values()) {
            prop_assert_eq!(decode(&encode(&v)).unwrap(), v);
        }

        /// Every accepted input is in canonical form.
        #[test]
        fn canonical(data in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(v) = decode(&data) {
                prop_assert_eq!(encode(&v), data);
            }
        }
    }

    #[test]
    fn refuses() {
        for (bytes, why) in [
            (&b""[..], "ends in the middle"),
            (b"\xc0", "does not begin a value"),
            (b"\x92\x01", "2 items in 1 bytes"),
            (b"\x01\x01", "1 bytes follow"),
            (b"\x82\xa1b\x01\xa1a\x01", "not after"),
            (b"\x81\x01\x01", "no string"),
            (b"\xdd\xff\xff\xff\xff", "4294967295 items"),
            (b"\xcc\x01", "shorter form"),
            (b"\xd0\x05", "shorter form"),
            (b"\xd9\x01a", "shorter form"),
            (b"\xcb\x7f\xf8\0\0\0\0\0\0", "NaN"),
            (b"\xa1\xff", "utf-8"),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "beyond the integers"),
            (&[0x91; 40], "nested more than 16"),
        ] {
            let err = decode(bytes).unwrap_err().to_string();
            assert!(err.contains(why), "{bytes:x?}: {err}; want {why}");
        }
        let deepest = [&[0x91; 16][..], &[1]].concat();
        assert!(decode(&deepest).is_ok());
    }
}
