//! Memory: blocks, mapped files, the shared region, and views of several tensors in one space. Only this file uses
//! pointers.

use crate::error::Error;
use crate::program::Space;
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Zeroed bytes, aligned to a page. Pages that are never touched take no memory.
pub fn block(bytes: usize, what: &str) -> Result<MmapMut, Error> {
    let map = if bytes > isize::MAX as usize { None } else { MmapOptions::new().len(bytes.max(1)).map_anon().ok() };
    map.ok_or_else(|| Error::out_of_memory(format!("{what} of {bytes} bytes")))
}

/// The weights of a program.
pub enum Weights {
    /// Mapped from the artifact. What SetWeights writes stays in this process and takes memory page by page.
    Mapped(MmapMut),
    /// Received from the host, or copied because the artifact does not align them.
    Block(MmapMut, usize),
}

impl Weights {
    /// Maps bytes of the artifact.
    pub fn map(artifact: &File, offset: u64, size: usize) -> Result<Weights, Error> {
        let whole = artifact.metadata().map_err(|e| Error::device(format!("the artifact: {e}")))?.len();
        if offset > whole || size as u64 > whole - offset {
            return Err(Error::refused(format!("load: {size} bytes of weights at {offset} of a file of {whole}")));
        }
        let fail = |e| Error::out_of_memory(format!("{size} bytes of weights cannot be mapped: {e}"));
        // SAFETY: the mapping is private, and the host does not change the artifact while backends have it mapped. If
        // somebody truncates the file nevertheless, SIGBUS ends this process, as section 11 of the protocol says.
        let map = unsafe { MmapOptions::new().offset(offset).len(size).map_copy(artifact) }.map_err(fail)?;
        if (map.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
            return Ok(Weights::Mapped(map));
        }
        let mut copy = block(size, "weights")?;
        copy[..size].copy_from_slice(&map);
        Ok(Weights::Block(copy, size))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Weights::Mapped(m) => m,
            Weights::Block(b, size) => &b[..*size],
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Weights::Mapped(m) => m,
            Weights::Block(b, size) => &mut b[..*size],
        }
    }
}

/// The memory in which the host puts weights that replace those of the artifact.
pub struct NewWeights(File);

impl NewWeights {
    pub fn new(file: File) -> NewWeights {
        NewWeights(file)
    }

    /// Reads a weight at an offset of the space of the weights.
    pub fn read(&self, into: &mut [u8], offset: usize) -> Result<(), Error> {
        use std::os::unix::fs::FileExt;
        if !sealed(&self.0) {
            return Err(Error::refused("weights: the memory for them is not sealed"));
        }
        let size = into.len();
        let lost = |e| Error::refused(format!("weights: {size} bytes at {offset}: {e}"));
        self.0.read_exact_at(into, offset as u64).map_err(lost)
    }
}

/// The least alignment of weights. Places of a program are multiples of 256 within their space.
const ALIGNMENT: usize = 64;

const HEADER: usize = 65536;
const BEAT: usize = 64;
const GENERATION: usize = 128;
const STEPS: usize = 136;

/// The shared region: spec/protocol.md, section 5.
pub struct Region {
    file: File,
    header: MmapRaw,
}

impl Region {
    pub fn open(file: File) -> Result<Region, String> {
        let header = MmapOptions::new().len(HEADER).map_raw(&file).map_err(|e| format!("the shared region: {e}"))?;
        let r = Region { file, header };
        match r.word(0).load(Ordering::Relaxed).to_le_bytes() == *b"RLXIOREG" {
            true => Ok(r),
            false => Err("the descriptor io is no shared region".into()),
        }
    }

    /// A word of the header.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < HEADER);
        // SAFETY: the word is in the mapping, which is writable and lives as long as self. Its HEADER bytes cannot be
        // removed by the host: the file is sealed against that, or has not been grown yet. The word is aligned, because
        // mappings begin at a page. Both processes access it only with atomic loads and stores.
        unsafe { AtomicU64::from_ptr(self.header.as_mut_ptr().add(offset).cast()) }
    }

    fn store(&self, offset: usize, v: u64) {
        self.word(offset).store(v.to_le(), Ordering::Release);
    }

    /// Writes the heartbeat. The value must not be 0 and must change from call to call.
    pub fn beat(&self, v: u64) {
        self.store(BEAT, v);
    }

    /// Announces that a run begins.
    pub fn begin(&self, generation: i64) {
        self.store(STEPS, 0);
        self.store(GENERATION, generation as u64);
    }

    /// Announces how many steps of the run have started.
    pub fn step(&self, started: usize) {
        self.store(STEPS, started as u64);
    }

    /// Maps the whole region. Its data part must have `size` bytes and be sealed.
    pub fn map(&self, size: usize) -> Result<Io, Error> {
        let file_size = self.file.metadata().map_err(|e| Error::device(format!("the shared region: {e}")))?.len();
        if size.checked_add(HEADER).is_none_or(|n| n as u64 != file_size) || !sealed(&self.file) {
            return Err(Error::refused(format!(
                "load: io_size is {size}; the shared region has {file_size} bytes, or is not sealed"
            )));
        }
        // SAFETY: the seals fix the size of the file. The host writes inputs before a run and reads outputs after it.
        // In between, while references into the data live, only this process accesses it. If a host violates this, it
        // gets wrong results but does no harm: the data are numbers, and no size or index is taken from them without a
        // check.
        let map = unsafe { MmapOptions::new().len(HEADER + size).map_mut(&self.file) };
        Ok(Io {
            map: map.map_err(|e| Error::out_of_memory(format!("the shared region: {e}")))?,
            data: HEADER..HEADER + size,
        })
    }
}

#[cfg(target_os = "linux")]
fn sealed(file: &File) -> bool {
    use rustix::fs::SealFlags;
    let want = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_get_seals(file).is_ok_and(|have| have.contains(want))
}

#[cfg(not(target_os = "linux"))]
fn sealed(_: &File) -> bool {
    false // this system has no seals, and hosts on it do not pass a region
}

/// The IO space of programs.
pub struct Io {
    map: MmapMut,
    data: Range<usize>,
}

impl Io {
    /// An IO space for a program whose inputs and outputs travel in chunks.
    pub fn private(bytes: usize) -> Result<Io, Error> {
        Ok(Io { map: block(bytes, "an IO space")?, data: 0..bytes })
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.data.clone()]
    }

    pub fn size(&self) -> usize {
        self.data.len()
    }
}

/// The place of a value's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub space: Space,
    pub offset: usize,
    pub bytes: usize,
}

impl Place {
    /// Row i of a value with rows of that many bytes.
    pub fn row(self, i: usize, bytes: usize) -> Result<Place, Error> {
        match i.checked_add(1).and_then(|n| n.checked_mul(bytes)) {
            Some(end) if end <= self.bytes => Ok(Place { space: self.space, offset: self.offset + end - bytes, bytes }),
            _ => Err(Error::bug(format!("row {i} of {bytes} bytes in a value of {}", self.bytes))),
        }
    }

    pub fn range(self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    pub fn overlaps(self, other: Place) -> bool {
        let (a, b) = (self.range(), other.range());
        self.space == other.space && a.start.max(b.start) < a.end.min(b.end)
    }
}

/// The memory of a run by space.
pub struct Spaces<'a> {
    pub weights: &'a [u8],
    pub arena: &'a mut [u8],
    pub io: &'a mut [u8],
    pub state: &'a mut [u8],
}

/// The bytes of a step's operands and results.
type Views<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

/// Copies of operands that share memory with a result.
#[derive(Default)]
pub struct Copies(Vec<Vec<u64>>);

impl Spaces<'_> {
    /// The bytes of a value.
    pub fn bytes(&self, p: Place) -> &[u8] {
        let space = match p.space {
            Space::Weights => self.weights,
            Space::Arena => self.arena,
            Space::Io => self.io,
            Space::State => self.state,
        };
        &space[p.range()]
    }

    /// Copies a value to a place of the same size, which is not in the weights.
    pub fn copy(&mut self, from: Place, to: Place) -> Result<(), Error> {
        let Spaces { weights, arena, io, state } = self;
        let (into, others): (&mut [u8], [Option<&[u8]>; 4]) = match to.space {
            Space::Weights => return Err(Error::bug("weights are written")),
            Space::Arena => (arena, [Some(weights), None, Some(io), Some(state)]),
            Space::Io => (io, [Some(weights), Some(arena), None, Some(state)]),
            Space::State => (state, [Some(weights), Some(arena), Some(io), None]),
        };
        if from.bytes != to.bytes {
            return Err(Error::bug(format!("{} bytes are copied to {}", from.bytes, to.bytes)));
        }
        match others[from.space as usize] {
            Some(other) => into[to.range()].copy_from_slice(&other[from.range()]),
            None => into.copy_within(from.range(), to.offset),
        }
        Ok(())
    }

    /// Zeroes a value, which is not in the weights.
    pub fn clear(&mut self, p: Place) {
        match p.space {
            Space::Weights => {}
            Space::Arena => self.arena[p.range()].fill(0),
            Space::Io => self.io[p.range()].fill(0),
            Space::State => self.state[p.range()].fill(0),
        }
    }

    /// The spaces of the programs of a loop, whose IO space and arena are in this arena, one after the other.
    pub fn inner(&mut self, offset: usize, io: usize, arena: usize) -> Spaces<'_> {
        let (io, rest) = self.arena[offset..].split_at_mut(io);
        Spaces { weights: self.weights, arena: &mut rest[..arena], io, state: &mut [] }
    }

    /// The bytes of a step's operands and results. An operand that overlaps a result is copied. It is an error if
    /// results overlap.
    pub fn views<'a>(
        &'a mut self,
        operands: &[Place],
        results: &[Place],
        copies: &'a mut Copies,
    ) -> Result<Views<'a>, Error> {
        let mut order: Vec<usize> = (0..results.len()).filter(|r| results[*r].bytes > 0).collect();
        order.sort_by_key(|r| (results[*r].space as usize, results[*r].offset));
        if order.windows(2).any(|w| results[w[0]].overlaps(results[w[1]])) {
            return Err(Error::refused("load: results of a step overlap"));
        }
        copies.0.resize_with(copies.0.len().max(operands.len()), Vec::new);
        let copied: Vec<bool> = operands.iter().map(|o| results.iter().any(|r| r.overlaps(*o))).collect();
        for ((o, copy), _) in operands.iter().zip(&mut copies.0).zip(&copied).filter(|(_, copied)| **copied) {
            copy.resize(o.bytes.div_ceil(8), 0);
            bytemuck::cast_slice_mut(copy)[..o.bytes].copy_from_slice(self.bytes(*o));
        }
        // Cut each space at its results. The pieces between them are shared.
        let mut out: Vec<&mut [u8]> = results.iter().map(|_| Default::default()).collect();
        let mut shared: Vec<(Space, usize, &[u8])> = vec![(Space::Weights, 0, self.weights)];
        for (space, mut rest) in
            [(Space::Arena, &mut *self.arena), (Space::Io, &mut *self.io), (Space::State, &mut *self.state)]
        {
            let mut at = 0;
            for r in order.iter().filter(|r| results[**r].space == space) {
                let (between, tail) = rest.split_at_mut(results[*r].offset - at);
                let (mine, tail) = tail.split_at_mut(results[*r].bytes);
                shared.push((space, at, between));
                (out[*r], rest, at) = (mine, tail, results[*r].range().end);
            }
            shared.push((space, at, rest));
        }
        let of_operand = |(o, (copied, copy)): (&Place, (&bool, &'a Vec<u64>))| -> &'a [u8] {
            match *copied {
                true => &bytemuck::cast_slice(copy)[..o.bytes],
                _ if o.bytes == 0 => &[],
                _ => {
                    let (_, begin, part) = shared
                        .iter()
                        .rfind(|(s, begin, _)| *s == o.space && *begin <= o.offset)
                        .expect("a space begins at 0");
                    &part[o.offset - begin..][..o.bytes]
                }
            }
        };
        let inputs = operands.iter().zip(copied.iter().zip(&copies.0)).map(of_operand).collect();
        Ok((inputs, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(space: Space, offset: usize, bytes: usize) -> Place {
        Place { space, offset, bytes }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn region() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        use std::os::unix::fs::FileExt;
        let file = File::from(memfd_create("region", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(HEADER as u64).unwrap();
        assert!(Region::open(file.try_clone().unwrap()).is_err());
        file.write_all_at(b"RLXIOREG", 0).unwrap();
        let r = Region::open(file.try_clone().unwrap()).unwrap();
        r.beat(3);
        r.begin(7);
        r.step(2);
        for (at, want) in [(BEAT, 3), (GENERATION, 7), (STEPS, 2)] {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at as u64).unwrap();
            assert_eq!(u64::from_le_bytes(word), want);
        }
        file.set_len((HEADER + 512) as u64).unwrap();
        assert!(r.map(512).is_err(), "it is not sealed");
        fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert!(r.map(256).is_err() && r.map(usize::MAX).is_err());
        let mut io = r.map(512).unwrap();
        io.bytes()[511] = 9;
        let mut last = [0];
        file.read_exact_at(&mut last, (HEADER + 511) as u64).unwrap();
        assert_eq!((io.size(), last), (512, [9]));
    }

    #[test]
    fn weights() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/testdata/v1.0-mlp.rlx");
        let (file, bytes) = (File::open(path).unwrap(), std::fs::read(path).unwrap());
        let size = bytes.len();
        for (offset, part) in [(65536, 768), (65537, 767), (0, size), (size - 1, 1)] {
            let w = Weights::map(&file, offset as u64, part).unwrap();
            assert_eq!((w.bytes(), w.bytes().as_ptr() as usize % ALIGNMENT), (&bytes[offset..][..part], 0));
        }
        for (offset, part) in [(size as u64, 1), (1, size), (u64::MAX, 1)] {
            assert!(Weights::map(&file, offset, part).is_err());
        }
    }

    #[test]
    fn overlap() {
        let (mut arena, mut io, mut state) = ([0; 8], [7; 8], [9; 4]);
        let mut s = Spaces { weights: &[1, 2], arena: &mut arena, io: &mut io, state: &mut state };
        let both = [place(Space::Arena, 0, 4), place(Space::Arena, 3, 4)];
        assert!(s.views(&[], &both, &mut Copies::default()).is_err());
        let operands =
            [place(Space::Weights, 1, 1), place(Space::Io, 0, 2), place(Space::Io, 3, 2), place(Space::State, 4, 0)];
        let results = [place(Space::Io, 2, 4), place(Space::Io, 8, 0), place(Space::Arena, 4, 4)];
        let mut copies = Copies::default();
        let (ins, outs) = s.views(&operands, &results, &mut copies).unwrap();
        outs.into_iter().for_each(|o| o.fill(5));
        assert_eq!(ins, [&[2][..], &[7, 7], &[7, 7], &[]]);
        assert_eq!((arena, io), ([0, 0, 0, 0, 5, 5, 5, 5], [7, 7, 5, 5, 5, 5, 7, 7]));
    }

    proptest! {
        /// Views are the bytes of their places, wherever these are.
        #[test]
        fn cut(places in prop::collection::vec((0usize..4, 0usize..32, 0usize..32), 1..8), results in 0usize..4) {
            const SPACES: [Space; 4] = [Space::Weights, Space::Arena, Space::Io, Space::State];
            let of = |(s, o, b): &(usize, usize, usize)| place(SPACES[*s], *o, *b);
            let results: Vec<_> = places.iter().take(results).filter(|p| p.0 != 0).map(of).collect();
            let operands: Vec<_> = places.iter().map(of).collect();
            let fill = |k: u8| -> Vec<u8> { (0..64).map(|i| k * 64 + i).collect() };
            let (weights, mut arena, mut io, mut state) = (fill(0), fill(1), fill(2), fill(3));
            let mut s = Spaces { weights: &weights, arena: &mut arena, io: &mut io, state: &mut state };
            let mut copies = Copies::default();
            let clash = results.iter().enumerate().any(|(i, a)| results[..i].iter().any(|b| a.overlaps(*b)));
            match s.views(&operands, &results, &mut copies) {
                Err(_) => prop_assert!(clash),
                Ok((ins, outs)) => {
                    prop_assert!(!clash);
                    outs.into_iter().for_each(|o| o.fill(0xff));
                    for (o, b) in operands.iter().zip(ins) {
                        prop_assert_eq!(b, &fill(o.space as u8)[o.range()]);
                    }
                }
            }
        }
    }
}
