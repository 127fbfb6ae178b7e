//! Frames on the wire: a length of four bytes, little-endian, and as many bytes of content.
//!
//! Pure: bytes come in as they arrive, whole frames come out. The length is checked as soon as it is
//! known, before anything is kept for it, so that a stranger who announces 4 GiB costs nothing.

/// Most content that one frame may have, in bytes.
pub const FRAME_LIMIT: usize = 1 << 20;

const HEADER: usize = 4;

/// A frame longer than this side takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("announced a frame of {announced} bytes, and the limit is {limit}")]
pub struct FrameTooLong {
    /// Length that was announced.
    pub announced: u64,
    /// Most that is taken.
    pub limit: usize,
}

/// Puts the length in front of a frame's content.
///
/// # Errors
/// Where the content is longer than [`FRAME_LIMIT`], which the peer would refuse.
pub fn encode(content: &[u8]) -> Result<Vec<u8>, FrameTooLong> {
    let too_long = FrameTooLong { announced: content.len() as u64, limit: FRAME_LIMIT };
    if content.len() > FRAME_LIMIT {
        return Err(too_long);
    }
    let length = u32::try_from(content.len()).map_err(|_| too_long)?;
    let mut frame = Vec::with_capacity(HEADER + content.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(content);
    Ok(frame)
}

/// Turns a stream of bytes, split anywhere, back into frames.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    limit: usize,
}

impl FrameDecoder {
    /// Makes a decoder that takes frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        FrameDecoder { buffer: Vec::new(), start: 0, limit: limit.min(FRAME_LIMIT) }
    }

    /// Changes the limit, once it is known who is speaking.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(FRAME_LIMIT);
    }

    /// Adds bytes as they arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole frame's content, if it has arrived.
    ///
    /// # Errors
    /// Where the next frame is longer than the limit; nothing can follow it, so the error repeats.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameTooLong> {
        let Some((content, end)) = self.frame_at(self.start)? else {
            return Ok(None);
        };
        let content = self.buffer[content..end].to_vec();
        self.start = end;
        Ok(Some(content))
    }

    /// Looks at every whole frame that has arrived and stops at the first for which `found` says so.
    ///
    /// # Errors
    /// As [`FrameDecoder::next_frame`].
    pub fn find<T>(&self, mut found: impl FnMut(&[u8]) -> Option<T>) -> Result<Option<T>, FrameTooLong> {
        let mut at = self.start;
        while let Some((content, end)) = self.frame_at(at)? {
            if let Some(answer) = found(&self.buffer[content..end]) {
                return Ok(Some(answer));
            }
            at = end;
        }
        Ok(None)
    }

    /// Whether so much waits to be taken that no more should be read.
    pub fn is_full(&self) -> bool {
        self.buffered().len() >= 2 * (HEADER + self.limit)
    }

    /// Bytes that arrived and were not taken.
    pub fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn frame_at(&self, at: usize) -> Result<Option<(usize, usize)>, FrameTooLong> {
        let Some(header) = self.buffer[at..].first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let announced = u32::from_le_bytes(*header);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(FrameTooLong { announced: announced.into(), limit: self.limit });
        }
        let content = at + HEADER;
        let whole = self.buffer.len() - content >= length;
        Ok(whole.then_some((content, content + length)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_giant_frame_is_refused_as_soon_as_its_length_is_known() {
        let mut decoder = FrameDecoder::new(FRAME_LIMIT);
        decoder.extend(&[0xff, 0xff, 0xff]);
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.extend(&[0xff]);
        let error = decoder.next_frame().unwrap_err();
        assert_eq!(error.announced, u64::from(u32::MAX));
        assert_eq!(decoder.next_frame(), Err(error), "the error repeats");
        assert!(decoder.buffer.capacity() < 64);
    }

    #[test]
    fn content_above_the_limit_is_not_sent() {
        assert!(encode(&vec![0; FRAME_LIMIT]).is_ok());
        assert!(encode(&vec![0; FRAME_LIMIT + 1]).is_err());
    }

    proptest! {
        #[test]
        fn frames_come_back_however_the_stream_is_split(
            frames in vec(vec(any::<u8>(), 0..200), 0..8),
            cuts in vec(1_usize..64, 1..64),
        ) {
            let stream: Vec<u8> = frames.iter().flat_map(|f| encode(f).unwrap()).collect();
            let mut decoder = FrameDecoder::new(256);
            let mut got = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.extend(now);
                rest = later;
                while let Some(frame) = decoder.next_frame().unwrap() {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, frames);
            prop_assert!(decoder.buffered().is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_never_take_more_than_they_are(
            chunks in vec(vec(any::<u8>(), 0..64), 0..32),
            limit in 0_usize..128,
        ) {
            let mut decoder = FrameDecoder::new(limit);
            let mut total = 0;
            for chunk in &chunks {
                decoder.extend(chunk);
                total += chunk.len();
                while let Ok(Some(frame)) = decoder.next_frame() {
                    prop_assert!(frame.len() <= limit);
                }
                let _ = decoder.find(|_| None::<()>);
                prop_assert!(decoder.buffered().len() <= total);
                prop_assert!(decoder.buffer.capacity() <= 2 * total.max(32));
            }
        }
    }
}
