//! A ping-pong over bare TCP sockets that never sleep: what the kernel's path costs by itself.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Round trips before the clock starts.
const WARM_UP: u64 = 100;
/// A peer that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Options of the hidden `cargo xtask bench raw-tcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Listen on the port; without it, connect to it
    #[arg(long)]
    server: bool,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    iterations: u64,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let stream = if args.server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))?;
        listener.accept()?.0
    } else {
        TcpStream::connect((Ipv4Addr::LOCALHOST, args.port))
            .with_context(|| format!("no raw TCP server on port {}", args.port))?
    };
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut message = vec![0x5a; args.size];
    let half_round_trip = if args.server {
        echo(&stream, &mut message, WARM_UP + args.iterations)?;
        return Ok(());
    } else {
        measure(&stream, &mut message, args.iterations)?
    };
    println!("half_rtt_usec {:.6}", half_round_trip.as_nanos() as f64 / 1000.0);
    Ok(())
}

fn echo(stream: &TcpStream, message: &mut [u8], times: u64) -> Result<()> {
    for _ in 0..times {
        receive(stream, message)?;
        send(stream, message)?;
    }
    Ok(())
}

/// The mean time of one direction.
fn measure(stream: &TcpStream, message: &mut [u8], times: u64) -> Result<Duration> {
    let mut round_trips = |times: u64| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..times {
            send(stream, message)?;
            receive(stream, message)?;
        }
        Ok(start.elapsed())
    };
    round_trips(WARM_UP)?;
    let elapsed = round_trips(times)?;
    let nanos = elapsed.as_nanos() / u128::from(2 * times.max(1));
    Ok(Duration::from_nanos(u64::try_from(nanos)?))
}

fn send(mut stream: &TcpStream, message: &[u8]) -> Result<()> {
    let mut sent = 0;
    spin(|| {
        sent += stream.write(&message[sent..])?;
        Ok(sent == message.len())
    })
}

fn receive(mut stream: &TcpStream, message: &mut [u8]) -> Result<()> {
    let mut received = 0;
    spin(|| {
        match stream.read(&mut message[received..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => received += more,
        }
        Ok(received == message.len())
    })
}

/// Tries until it is done. The clock is read only after many futile attempts.
fn spin(mut attempt: impl FnMut() -> io::Result<bool>) -> Result<()> {
    let mut since = None;
    for futile in 1_u64.. {
        match attempt() {
            Ok(true) => return Ok(()),
            Ok(false) => since = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if futile % 100_000 == 0 && since.get_or_insert_with(Instant::now).elapsed() > SILENCE {
            bail!("the peer has said nothing for {} s", SILENCE.as_secs());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn two_sides_measure_a_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            echo(&stream, &mut [0; 64], WARM_UP + 50).unwrap();
        });
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let time = measure(&stream, &mut [0; 64], 50).unwrap();
        server.join().unwrap();
        assert!(time > Duration::ZERO);
    }

    #[test]
    fn a_peer_that_leaves_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        assert!(receive(&stream, &mut [0; 8]).is_err());
    }
}
