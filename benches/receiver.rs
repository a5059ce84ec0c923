//! What the harnesses share: a receiver in the same process that does as little as its protocol lets it, and how much
//! processor time the process took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is received.
#[derive(Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "not every harness receives both")]
pub enum Kind {
    Webhooks,
    Emails,
}

/// The processor time of this process so far, of all its threads, in seconds.
pub fn processor_time() -> std::io::Result<f64> {
    // Fields 14 and 15 after the name in parentheses, which is the second: user and system time in hundredths of a second.
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    Ok(fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

/// A receiver on a thread of its own: its port.
pub fn start_receiver(kind: Kind, received: Arc<AtomicU64>) -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let received = Arc::clone(&received);
                // A connection that breaks is the sender's to complain of.
                tokio::spawn(async move {
                    match kind {
                        Kind::Webhooks => answer_requests(stream, &received).await,
                        Kind::Emails => take_mail(stream, &received).await,
                    }
                });
            }
            #[expect(unreachable_code, reason = "names the type of the block")]
            std::io::Result::Ok(())
        })
    });
    Ok(port)
}

/// HTTP/1.1: 204 to every request.
async fn answer_requests(mut stream: TcpStream, received: &AtomicU64) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(16_384);
    loop {
        while let Some(length) = request_length(&buffer) {
            buffer.drain(..length);
            received.fetch_add(1, Ordering::Relaxed);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The length of the first request, if it is there as a whole.
fn request_length(buffer: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(buffer, b"\r\n\r\n")? + 4;
    let field = b"content-length: ";
    let at = memchr::memmem::find(&buffer[..head], field)? + field.len();
    let digits = buffer[at..head].iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |value, digit| value * 10 + usize::from(digit - b'0'));
    (buffer.len() >= head + body).then_some(head + body)
}

/// SMTP without extensions: everything is accepted.
async fn take_mail(mut stream: TcpStream, received: &AtomicU64) -> std::io::Result<()> {
    stream.write_all(b"220 sink\r\n").await?;
    let mut buffer = Vec::with_capacity(16_384);
    let mut content = false;
    loop {
        let end: &[u8] = if content { b"\r\n.\r\n" } else { b"\r\n" };
        let Some(at) = memchr::memmem::find(&buffer, end) else {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let data = !content && buffer.starts_with(b"DATA");
        let answer: &[u8] = match (content, data) {
            (true, _) => b"250 taken\r\n",
            (false, true) => b"354 go on\r\n",
            (false, false) => b"250 sink\r\n",
        };
        received.fetch_add(content.into(), Ordering::Relaxed);
        content = data;
        buffer.drain(..at + end.len());
        stream.write_all(answer).await?;
    }
}
