//! What a run says first, over the socket: which device it wants.

use crate::VERSION;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

const MAGIC: [u8; 8] = *b"ENTRloop";
/// No configuration is longer.
const MOST_TEXT: usize = 1 << 20;

/// The device that a run wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hello {
    /// Pages of the program's data.
    pub pages: u64,
    /// The effective configuration, as TOML.
    pub config: String,
    /// The processor that the firmware is to run on, as TOML.
    pub processor: String,
}

impl Hello {
    /// Says it.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, socket: &mut UnixStream) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::from(VERSION).to_le_bytes());
        bytes.extend((self.config.len() as u32).to_le_bytes());
        bytes.extend((self.processor.len() as u32).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(self.pages.to_le_bytes());
        bytes.extend(self.config.as_bytes());
        bytes.extend(self.processor.as_bytes());
        socket.write_all(&bytes)
    }

    /// Hears it; why not, as a sentence, if it is none.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(socket: &mut UnixStream) -> io::Result<Result<Self, String>> {
        let mut head = [0; 32];
        socket.read_exact(&mut head)?;
        if head[..8] != MAGIC {
            return Ok(Err("this is the firmware of a loop; \
                 connect with entresol run --device loop:SOCKET"
                .to_owned()));
        }
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four"));
        if word(8) != u32::from(VERSION) {
            return Ok(Err(format!(
                "the run speaks version {} of the device protocol and the firmware {VERSION}; use \
                 the same release of both",
                word(8)
            )));
        }
        let (config, processor) = (word(12) as usize, word(16) as usize);
        if config.max(processor) > MOST_TEXT {
            return Ok(Err(format!(
                "a configuration of {} B is none",
                config.max(processor)
            )));
        }
        let mut text = |size| {
            let mut bytes = vec![0; size];
            socket.read_exact(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Ok(Self {
            config: text(config)?,
            processor: text(processor)?,
            pages: u64::from_le_bytes(head[24..].try_into().expect("eight")),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_and_strangers_are_refused() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let hello = Hello {
            pages: 77,
            config: "[nand]".to_owned(),
            processor: "[processor]".to_owned(),
        };
        hello.send(&mut here).unwrap();
        assert_eq!(Hello::receive(&mut there).unwrap(), Ok(hello));
        here.write_all(&[b'x'; 32]).unwrap();
        let error = Hello::receive(&mut there).unwrap().unwrap_err();
        assert!(error.contains("--device loop:SOCKET"), "{error}");
        let mut old = [0; 32];
        old[..8].copy_from_slice(&MAGIC);
        old[8] = 9;
        here.write_all(&old).unwrap();
        let error = Hello::receive(&mut there).unwrap().unwrap_err();
        assert!(error.contains("version 9"), "{error}");
    }
}
