//! The shop of the examples as a process of its own, and what it has seen.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use shop::{Entry, Verdict};

use crate::binary::{self, Stepwell};
use crate::process::Running;

/// A shop on a port of its own. It ends with the value.
pub struct Shop {
    address: String,
    _process: Running,
}

impl Shop {
    /// Starts one. `victim` is the file with the process id that `kill:` faults kill.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(faults: &[impl AsRef<str>], victim: Option<&Path>) -> Self {
        let mut command = Command::new(Stepwell::shop());
        binary::bare(&mut command);
        for fault in faults {
            command.args(["--fault", fault.as_ref()]);
        }
        if let Some(file) = victim {
            command.arg("--victim-pid-file").arg(file);
        }
        let mut process = Running::spawn(command);
        let line = process.next_line().unwrap_or_else(|| panic!("the shop does not start"));
        let address = line.rsplit("http://").next().expect("the shop says where it listens").to_owned();
        Self { address, _process: process }
    }

    /// Its address, e.g. `http://127.0.0.1:4810`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    ///
    /// # Panics
    /// If the shop does not answer.
    #[must_use]
    pub fn record(&self) -> Vec<Entry> {
        serde_json::from_value(self.ask()["requests"].take()).expect("the record has the form of `Entry`")
    }

    /// What the record says of the client.
    ///
    /// # Panics
    /// If the shop does not answer.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        serde_json::from_value(self.ask()["verdict"].take()).expect("the verdict has the form of `Verdict`")
    }

    fn ask(&self) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("the shop listens");
        let request = format!("GET /_record HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("the shop reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the shop answers");
        let body = answer.split_once("\r\n\r\n").expect("an answer has a head").1;
        serde_json::from_str(body).expect("the record is JSON")
    }
}
