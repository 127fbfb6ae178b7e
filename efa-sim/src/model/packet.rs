//! The datagram of the protocol: one fixed header, then the payload.
//!
//! Every packet has the same 112-byte header, little-endian, so that encoding and decoding are a handful
//! of loads and stores with no branches on the kind; on a local socket the unused bytes cost nothing that
//! can be measured. The shared key travels in each packet and is compared before anything else is
//! believed: it keeps strangers who can reach the port from writing registered memory. It does not hide
//! anything from someone who can read the packets of the network.

use super::types::{Gid, Qpn, Status};

/// Bytes of the header.
pub const HEADER_LEN: usize = 112;
/// First four bytes of every datagram.
pub const MAGIC: [u8; 4] = *b"eSRD";
/// The version of this layout.
pub const VERSION: u8 = 1;
/// Words of selective acknowledgement in an [`Kind::Ack`] packet.
pub const ACK_WORDS: usize = 8;

/// The secret that all devices of one fabric share.
pub type FabricKey = [u8; 16];

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A whole message, numbered.
    Send = 1,
    /// A piece of an RDMA write, numbered.
    Write = 2,
    /// Asks for pieces of remote memory; `psn` is the request's token.
    ReadRequest = 3,
    /// A piece of remote memory; `psn` is the request's token.
    ReadResponse = 4,
    /// Nothing but an acknowledgement; the payload may hold a longer map.
    Ack = 5,
    /// The numbered packet `psn` met no posted receive, send it again later.
    NotReady = 6,
    /// The numbered packet `psn` was refused with `status`, for good.
    Refused = 7,
    /// The read request `psn` was refused with `status`.
    ReadRefused = 8,
    /// The queue pair that was addressed is not there.
    BadQpn = 9,
    /// An unreliable message, not numbered.
    Datagram = 10,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::Send,
            2 => Kind::Write,
            3 => Kind::ReadRequest,
            4 => Kind::ReadResponse,
            5 => Kind::Ack,
            6 => Kind::NotReady,
            7 => Kind::Refused,
            8 => Kind::ReadRefused,
            9 => Kind::BadQpn,
            10 => Kind::Datagram,
            _ => return None,
        })
    }

    /// Whether a queue pair that is not there should answer it.
    pub fn wants_answer(self) -> bool {
        matches!(self, Kind::Send | Kind::Write | Kind::ReadRequest)
    }
}

/// `ack` and `ack_bits` are valid.
pub const FLAG_ACK: u8 = 1;
/// `imm` is valid.
pub const FLAG_IMM: u8 = 2;
/// In an acknowledgement: the receiver that had no receives has `length` again.
pub const FLAG_READY: u8 = 4;
/// Sent before, maybe received before.
pub const FLAG_AGAIN: u8 = 8;

/// The fields of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// How a refused operation ends; [`Status::Ok`] elsewhere.
    pub status: Status,
    /// The shared secret.
    pub key: FabricKey,
    /// The sender's device.
    pub src_gid: Gid,
    /// The sender's queue pair.
    pub src_qpn: Qpn,
    /// The receiver's queue pair.
    pub dst_qpn: Qpn,
    /// The incarnation of the sender's queue pair, never 0.
    pub src_incarnation: u32,
    /// The incarnation that the sender believes to talk to, 0 before it has heard from it.
    pub dst_incarnation: u32,
    /// Packet number, or token of a read.
    pub psn: u32,
    /// The oldest number that the sender still wants acknowledged: earlier ones are settled.
    pub base: u32,
    /// The key of the receiver's queue pair.
    pub qkey: u32,
    /// All numbers before this one have arrived.
    pub ack: u32,
    /// Bit `i`: number `ack + i` has arrived.
    pub ack_bits: u64,
    /// Immediate data.
    pub imm: u32,
    /// Key of the remote registration.
    pub rkey: u32,
    /// Remote address of this piece or request.
    pub addr: u64,
    /// Bytes of the whole write, or of the read request; receives that are posted.
    pub length: u32,
    /// Bytes of a piece in a read request; index of the piece in a response.
    pub piece: u32,
    /// Pieces that a read request wants.
    pub wanted: u64,
}

impl Header {
    /// A header of `kind` with everything else zero.
    pub fn new(kind: Kind) -> Header {
        Header {
            kind,
            flags: 0,
            status: Status::Ok,
            key: [0; 16],
            src_gid: Gid::default(),
            src_qpn: Qpn(0),
            dst_qpn: Qpn(0),
            src_incarnation: 0,
            dst_incarnation: 0,
            psn: 0,
            base: 0,
            qkey: 0,
            ack: 0,
            ack_bits: 0,
            imm: 0,
            rkey: 0,
            addr: 0,
            length: 0,
            piece: 0,
            wanted: 0,
        }
    }

    /// Writes the header into the first [`HEADER_LEN`] bytes of `out`; false where `out` is shorter.
    pub fn encode(&self, out: &mut [u8]) -> bool {
        let Some(out) = out.first_chunk_mut::<HEADER_LEN>() else { return false };
        let mut writer = Writer { out, at: 0 };
        writer.put(MAGIC);
        writer.put([VERSION, self.kind as u8, self.flags, self.status.code()]);
        writer.put(self.key);
        writer.put(self.src_gid.0);
        for word in [
            self.src_qpn.0,
            self.dst_qpn.0,
            self.src_incarnation,
            self.dst_incarnation,
            self.psn,
            self.base,
            self.qkey,
            self.ack,
        ] {
            writer.put(word.to_le_bytes());
        }
        writer.put(self.ack_bits.to_le_bytes());
        writer.put(self.imm.to_le_bytes());
        writer.put(self.rkey.to_le_bytes());
        writer.put(self.addr.to_le_bytes());
        writer.put(self.length.to_le_bytes());
        writer.put(self.piece.to_le_bytes());
        writer.put(self.wanted.to_le_bytes());
        true
    }
}

/// Why a datagram is not a packet of this fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// Too short, another protocol, another version, or a field out of range.
    Malformed,
    /// A packet of this protocol without the shared key.
    BadKey,
}

/// Splits a datagram into header and payload.
///
/// Total: any bytes give a packet or an error. The key is compared before the fields are looked at, in a
/// time that does not depend on where it differs.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode<'a>(bytes: &'a [u8], key: &FabricKey) -> Result<(Header, &'a [u8]), DecodeError> {
    let (head, payload) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(DecodeError::Malformed)?;
    let mut reader = Reader { bytes: head, at: 0 };
    let magic: [u8; 4] = reader.take();
    let [version, kind, flags, status] = reader.take::<4>();
    if magic != MAGIC || version != VERSION {
        return Err(DecodeError::Malformed);
    }
    let theirs: FabricKey = reader.take();
    let difference = theirs.iter().zip(key).fold(0, |sum, (a, b)| sum | (a ^ b));
    if difference != 0 {
        return Err(DecodeError::BadKey);
    }
    let kind = Kind::from_code(kind).ok_or(DecodeError::Malformed)?;
    let status = Status::from_code(status).ok_or(DecodeError::Malformed)?;
    let header = Header {
        kind,
        flags,
        status,
        key: theirs,
        src_gid: Gid(reader.take()),
        src_qpn: Qpn(reader.u32()),
        dst_qpn: Qpn(reader.u32()),
        src_incarnation: reader.u32(),
        dst_incarnation: reader.u32(),
        psn: reader.u32(),
        base: reader.u32(),
        qkey: reader.u32(),
        ack: reader.u32(),
        ack_bits: reader.u64(),
        imm: reader.u32(),
        rkey: reader.u32(),
        addr: reader.u64(),
        length: reader.u32(),
        piece: reader.u32(),
        wanted: reader.u64(),
    };
    if header.src_incarnation == 0 && kind != Kind::BadQpn {
        return Err(DecodeError::Malformed);
    }
    Ok((header, payload))
}

/// Writes the longer map of an acknowledgement as the payload of `out`, whose header is in place.
pub fn encode_ack_words(words: &[u64; ACK_WORDS], out: &mut [u8]) {
    for (word, slot) in words.iter().zip(out.chunks_exact_mut(8)) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
}

/// Reads the longer map; words that are not in `payload` are 0.
pub fn decode_ack_words(payload: &[u8]) -> [u64; ACK_WORDS] {
    let mut words = [0; ACK_WORDS];
    for (word, bytes) in words.iter_mut().zip(payload.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    words
}

struct Writer<'a> {
    out: &'a mut [u8; HEADER_LEN],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(slot) = self.out.get_mut(self.at..self.at + N) {
            slot.copy_from_slice(&bytes);
        }
        self.at += N;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; HEADER_LEN],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        if let Some(bytes) = self.bytes.get(self.at..self.at + N) {
            out.copy_from_slice(bytes);
        }
        self.at += N;
        out
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
