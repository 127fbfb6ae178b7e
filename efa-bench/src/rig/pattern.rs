//! Bytes that say where they belong: each depends on its position, its message's number, and the sender.

/// The bytes of one sender.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    key: u64,
}

/// The odd constant of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014): the golden ratio in 64 bits.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Pattern {
    /// The pattern of sender `sender` under `seed`.
    pub fn new(seed: u64, sender: u64) -> Pattern {
        Pattern { key: mix(seed ^ mix(sender.wrapping_add(1).wrapping_mul(GAMMA))) }
    }

    /// The eight bytes at word `index` of message `message`.
    fn word(self, message: u64, index: u64) -> [u8; 8] {
        let start = mix(self.key ^ message.wrapping_mul(GAMMA));
        mix(start.wrapping_add(index.wrapping_mul(GAMMA))).to_le_bytes()
    }

    /// Writes message `message`.
    pub fn fill(self, message: u64, bytes: &mut [u8]) {
        for (index, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&self.word(message, index as u64)[..chunk.len()]);
        }
    }

    /// The first wrong byte of message `message`: its offset, what it should be, what it is.
    pub fn first_difference(self, message: u64, bytes: &[u8]) -> Option<(usize, u8, u8)> {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let word = self.word(message, index as u64);
            if chunk != &word[..chunk.len()] {
                let within = chunk.iter().zip(word).position(|(found, expected)| *found != expected)?;
                return Some((index * 8 + within, word[within], chunk[within]));
            }
        }
        None
    }
}

/// The finaliser of SplitMix64 (see [`GAMMA`]).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pattern: Pattern, number: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        pattern.fill(number, &mut bytes);
        bytes
    }

    #[test]
    fn what_was_written_verifies() {
        let pattern = Pattern::new(7, 0);
        for len in [0, 1, 7, 8, 9, 64, 65_537] {
            assert_eq!(pattern.first_difference(3, &message(pattern, 3, len)), None, "{len}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let pattern = Pattern::new(1, 0);
        for offset in [0, 1, 8, 62, 63, 64] {
            let mut bytes = message(pattern, 0, 65);
            let right = bytes[offset];
            bytes[offset] ^= 0x10;
            assert_eq!(pattern.first_difference(0, &bytes), Some((offset, right, right ^ 0x10)));
        }
    }

    #[test]
    fn bytes_depend_on_position_message_number_sender_and_seed() {
        let base = message(Pattern::new(1, 0), 5, 4096);
        for other in [
            message(Pattern::new(2, 0), 5, 4096),
            message(Pattern::new(1, 1), 5, 4096),
            message(Pattern::new(1, 0), 6, 4096),
            base[1..].iter().copied().chain([0]).collect(),
            base[8..].iter().copied().chain([0; 8]).collect(),
        ] {
            // By chance, one byte in 256 is equal: 16 of 4096, standard deviation 4.
            let equal = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(equal < 48, "{equal} of 4096 bytes are equal");
        }
    }
}
