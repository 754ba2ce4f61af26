//! Element types, and tensors as a kernel sees them.

use crate::error::Error;
use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident $text:literal $bytes:literal,)*) => {
        /// An element type. An element of a packed type is a block of several values; see spec/format.md, "Types".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, non_camel_case_types)] // the names say it
        pub enum DType { $($name,)* }

        impl DType {
            /// Its name, such as `f32`.
            pub fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// Bytes of an element.
            pub fn size(self) -> usize {
                match self { $(DType::$name => $bytes,)* }
            }

            /// The type with that name.
            pub fn parse(name: &str) -> Option<DType> {
                match name { $($text => Some(DType::$name),)* _ => None }
            }
        }
    };
}

dtypes! {
    F32 "f32" 4, F16 "f16" 2, BF16 "bf16" 2, F64 "f64" 8,
    I8 "i8" 1, I16 "i16" 2, I32 "i32" 4, I64 "i64" 8, U8 "u8" 1, U32 "u32" 4, Bool "bool" 1,
    Q4_0 "q4_0" 18, Q4_1 "q4_1" 20, Q5_0 "q5_0" 22, Q5_1 "q5_1" 24, Q8_0 "q8_0" 34,
    Q2_K "q2_k" 84, Q3_K "q3_k" 110, Q4_K "q4_k" 144, Q5_K "q5_k" 176, Q6_K "q6_k" 210, Q8_K "q8_k" 292,
    IQ4_NL "iq4_nl" 18, IQ4_XS "iq4_xs" 136, MXFP4 "mxfp4" 17,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for the elements of a tensor.
///
/// f16 and bf16 are read as their bits, `u16`; bools as `u8`, 0 or 1.
pub trait Element: bytemuck::Pod + sealed::Sealed {
    /// The element types that can be read as this type.
    const DTYPES: &'static [DType];
}

macro_rules! elements {
    ($($rust:ty: $($name:ident)*;)*) => { $(
        impl sealed::Sealed for $rust {}
        impl Element for $rust { const DTYPES: &'static [DType] = &[$(DType::$name),*]; }
    )* };
}

elements! { f32: F32; f64: F64; i8: I8; i16: I16; i32: I32; i64: I64; u8: U8 Bool; u16: F16 BF16; u32: U32; }

fn check<T: Element>(dtype: DType) -> Result<(), Error> {
    if T::DTYPES.contains(&dtype) {
        return Ok(());
    }
    Err(Error::bug(format!("a tensor of {dtype} is read as {}", std::any::type_name::<T>())))
}

/// A tensor that a kernel reads: dense and row-major.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Its memory, aligned for its elements.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its elements. Fails with RLX9001 if T does not fit the element type.
    pub fn slice<T: Element>(&self) -> Result<&'a [T], Error> {
        check::<T>(self.dtype)?;
        if self.bytes.is_empty() {
            return Ok(&[]); // an empty slice may have any address
        }
        bytemuck::try_cast_slice(self.bytes).map_err(|e| Error::bug(format!("a tensor of {}: {e}", self.dtype)))
    }
}

/// A tensor that a kernel writes: dense and row-major. Its initial contents are undefined, except for
/// [`Backend::update`].
///
/// [`Backend::update`]: crate::Backend::update
#[derive(Debug)]
pub struct ViewMut<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a mut [u8],
}

impl<'a> ViewMut<'a> {
    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its sizes.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Its memory, aligned for its elements.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Its elements. Fails with RLX9001 if T does not fit the element type.
    pub fn slice<T: Element>(&mut self) -> Result<&mut [T], Error> {
        check::<T>(self.dtype)?;
        if self.bytes.is_empty() {
            return Ok(&mut []);
        }
        bytemuck::try_cast_slice_mut(self.bytes).map_err(|e| Error::bug(format!("a tensor of {}: {e}", self.dtype)))
    }
}

/// Whether a tensor of floats has a NaN.
pub(crate) fn has_nan(dtype: DType, bytes: &[u8]) -> bool {
    fn any<const N: usize>(bytes: &[u8], nan: impl Fn([u8; N]) -> bool) -> bool {
        bytes.as_chunks().0.iter().any(|b| nan(*b))
    }
    match dtype {
        DType::F32 => any(bytes, |b| f32::from_le_bytes(b).is_nan()),
        DType::F64 => any(bytes, |b| f64::from_le_bytes(b).is_nan()),
        DType::F16 => any(bytes, |b| u16::from_le_bytes(b) & 0x7fff > 0x7c00),
        DType::BF16 => any(bytes, |b| u16::from_le_bytes(b) & 0x7fff > 0x7f80),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices() {
        let (values, shape) = ([1f32, 2.0], [2]);
        let v = View { dtype: DType::F32, shape: &shape, bytes: bytemuck::cast_slice(&values) };
        assert_eq!(v.slice::<f32>().unwrap(), values);
        assert_eq!(v.slice::<i32>().unwrap_err().to_string(), "a tensor of f32 is read as i32 (RLX9001)");
        let odd = View { dtype: DType::F32, shape: &shape, bytes: &bytemuck::cast_slice(&[0f32; 3])[1..9] };
        assert!(odd.slice::<f32>().is_err());
        assert!(View { bytes: &odd.bytes[..0], ..odd }.slice::<f32>().unwrap().is_empty());
    }

    #[test]
    fn nans() {
        for (dtype, nan, inf) in [
            (DType::F32, f32::NAN.to_le_bytes().to_vec(), f32::INFINITY.to_le_bytes().to_vec()),
            (DType::F64, f64::NAN.to_le_bytes().to_vec(), f64::INFINITY.to_le_bytes().to_vec()),
            (DType::F16, vec![0, 0xfe], vec![0, 0xfc]),
            (DType::BF16, vec![0xc0, 0x7f], vec![0x80, 0x7f]),
        ] {
            assert!(has_nan(dtype, &[&inf[..], &nan].concat()) && !has_nan(dtype, &inf), "{dtype}");
        }
    }
}
