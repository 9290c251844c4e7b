//! Simplest backend of a port: bytes in memory, for the tests of front ends.

use std::sync::Arc;

use hostftl_core::SECTOR;
use hostftl_io::{Arena, Class, HOST_CLASSES, Waker};

use crate::running::front::Port;
use crate::running::front::job::{Answer, Buffer, Export, Extent, Job, JobOp, MAX_EXTENTS};
use crate::running::front::queue::{Inbox, NextJob};

/// Returns a port over `bytes` zero bytes, which exist as long as the process.
///
/// # Panics
/// When no memory or thread is available.
pub fn ram_port(name: &str, bytes: u64) -> Port {
    let export = Export {
        volume: [0; 16],
        lasts: false,
        name: name.into(),
        also: None,
        held: None,
        bytes,
        max_transfer: 1 << 20,
        align: 4096,
        fast_zeroes: false,
        forgot: false,
        read_only: false,
    };
    let arena = Arena::new(&HOST_CLASSES, Class { bytes: 4096, count: 0 }).expect("memory");
    let waker = Arc::new(Waker::new().expect("an eventfd"));
    let (port, inbox) = Port::new(export, arena, waker);
    std::thread::spawn(move || serve(&inbox, vec![0; bytes as usize]));
    port
}

fn serve(inbox: &Inbox, mut bytes: Vec<u8>) {
    loop {
        match inbox.take(u64::MAX) {
            NextJob::Job(job) => answer(job, &mut bytes),
            NextJob::TooLong => unreachable!("no job is longer than the longest"),
            NextJob::Nothing => inbox.waker().sleep(None, || inbox.has_work()),
            NextJob::Over => return,
        }
    }
}

fn answer(job: Job, bytes: &mut [u8]) {
    let range = job.offset as usize..(job.offset + job.bytes) as usize;
    let data: Option<Buffer> = match job.op {
        JobOp::Read(mut data) => {
            data.copy_from_slice(&bytes[range]);
            Some(data)
        }
        JobOp::Write { data, .. } => {
            bytes[range].copy_from_slice(&data);
            Some(data)
        }
        JobOp::Flush => None,
        JobOp::Status => {
            let extents = extents(&bytes[range]);
            job.reply.take(Answer { extents, ..Answer::new(job.cookie, Ok(()), None) });
            return job.reply.flush();
        }
        JobOp::Trim { .. } | JobOp::Zeroes { .. } => {
            bytes[range].fill(0);
            None
        }
    };
    job.reply.take(Answer::new(job.cookie, Ok(()), data));
    job.reply.flush();
}

/// Returns the extents; sectors other than zeros count as mapped.
fn extents(bytes: &[u8]) -> Vec<Extent> {
    let is_mapped = |sector: &[u8]| sector.iter().any(|byte| *byte != 0);
    let sectors: Vec<&[u8]> = bytes.chunks(SECTOR).collect();
    let runs = sectors.chunk_by(|one, next| is_mapped(one) == is_mapped(next));
    let extent =
        |run: &[&[u8]]| Extent { bytes: (run.len() * SECTOR) as u64, mapped: is_mapped(run[0]) };
    runs.take(MAX_EXTENTS).map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::HostError;
    use std::sync::mpsc::channel;

    #[test]
    fn written_data_is_readable_until_trimmed() {
        let port = ram_port("ram", 1 << 20);
        let (reply, answers) = channel();
        let ask = |op, cookie| {
            port.submit(Job {
                op,
                offset: 8192,
                bytes: 4096,
                cookie,
                reply: Arc::new(reply.clone()),
            });
            let answer = answers.recv().expect("an answer");
            assert_eq!((answer.cookie, answer.result), (cookie, Ok(())));
            answer.data
        };
        let mut data = port.buffer(4096);
        data.fill(9);
        ask(JobOp::Write { data, fua: false }, 1);
        assert!(ask(JobOp::Read(port.buffer(4096)), 2).unwrap().iter().all(|byte| *byte == 9));
        ask(JobOp::Trim { fua: true }, 3);
        assert!(ask(JobOp::Read(port.buffer(4096)), 4).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_job_past_the_end_is_refused() {
        let port = ram_port("ram", 8192);
        let (reply, answers) = channel();
        port.submit(Job {
            op: JobOp::Flush,
            offset: 8192,
            bytes: 512,
            cookie: 5,
            reply: Arc::new(reply),
        });
        assert_eq!(answers.recv().unwrap().result, Err(HostError::Range));
    }
}
