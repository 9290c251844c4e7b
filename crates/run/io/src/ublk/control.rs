//! Creates, starts, stops and deletes block devices.
//!
//! Invariants
//! - One command at a time is in flight, in a thread of its own. Some kernels lose a command or
//!   never end it, and the caller must not hang with it.
//! - After a command without a result no further command is sent. Memory passed to the kernel is
//!   then kept until the process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::{
    self, ANY, Attributes, DeviceInfo, Features, INFO_BYTES, PARAMS_BYTES, Spec, order,
};
use super::error::UblkError;

/// Control node of ublk.
const NODE: &str = "/dev/ublk-control";
/// Timeout of a command.
const LIMIT: Duration = Duration::from_secs(30);
/// Timeout of a stop: the kernel first writes back its cache of the device.
const STOP_LIMIT: Duration = Duration::from_secs(240);

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// Access to the kernel's control of ublk devices.
#[derive(Debug)]
pub struct Control {
    orders: Sender<Order>,
    stuck: AtomicBool,
}

/// Command with its memory and the receiver of its result.
#[derive(Debug)]
struct Order {
    number: u32,
    id: u32,
    data: u64,
    memory: Vec<u8>,
    done: Sender<io::Result<Vec<u8>>>,
}

/// Returns the numbers of all ublk devices of this machine.
pub fn devices() -> Vec<u32> {
    let entries = fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("ublkc")?.parse().ok();
    let mut all: Vec<_> = entries.filter_map(|it| number(it.file_name().to_str()?)).collect();
    all.sort_unstable();
    all
}

impl Control {
    /// Opens the control node.
    ///
    /// # Errors
    /// When it is missing, or the process has no right to it.
    pub fn open() -> Result<Self, UblkError> {
        Control::at(Path::new(NODE))
    }

    fn at(node: &Path) -> Result<Self, UblkError> {
        let name = node.display().to_string();
        let failed = |action| {
            let name = name.clone();
            move |source: io::Error| match source.kind() {
                ErrorKind::NotFound => UblkError::NoModule(name),
                ErrorKind::PermissionDenied => UblkError::NoRight(name),
                _ => UblkError::System { name, action, source },
            }
        };
        let node = OpenOptions::new().read(true).write(true).open(node).map_err(failed("open"))?;
        let system = |action| {
            let name = name.clone();
            move |source| UblkError::System { name, action, source }
        };
        let ring = Ring::builder().build(4).map_err(system("create its io_uring"))?;
        let (orders, queue) = channel();
        let builder = thread::Builder::new().name("ublk control".into());
        builder.spawn(move || obey(&node, ring, &queue)).map_err(system("start a thread"))?;
        Ok(Control { orders, stuck: AtomicBool::new(false) })
    }

    /// Returns the features of the kernel's ublk.
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn features(&self) -> Result<Features, UblkError> {
        let bytes =
            self.send_to(NODE, "report its features", order::GET_FEATURES, ANY, vec![0; 8])?;
        Ok(Features(u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"))))
    }

    /// Creates a device without starting it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&self, spec: &Spec) -> Result<DeviceInfo, UblkError> {
        let made = self.send_to(NODE, "add a device", order::ADD_DEV, ANY, spec.emit().to_vec());
        match made {
            Err(error) if matches!(error.number(), Some(libc::EPERM | libc::EACCES)) => {
                Err(UblkError::NoRight(NODE.into()))
            }
            made => Ok(info(&made?)),
        }
    }

    /// Sets the attributes of a device that is not started yet.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_attributes(&self, id: u32, attributes: &Attributes) -> Result<(), UblkError> {
        let memory = attributes.emit().to_vec();
        self.send("set its attributes", order::SET_PARAMS, id, memory).map(drop)
    }

    /// Resizes a device in use to `sectors` sectors; for kernels with [`Features::UPDATE_SIZE`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_length(&self, id: u32, sectors: u64) -> Result<(), UblkError> {
        let (name, action) = (format!("/dev/ublkb{id}"), "set its length");
        let number = order::UPDATE_SIZE;
        self.command(&name, action, number, id, sectors, Vec::new(), LIMIT).map(drop)
    }

    /// Returns the attributes of a device.
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn attributes(&self, id: u32) -> Result<Attributes, UblkError> {
        let mut memory = vec![0; PARAMS_BYTES];
        memory[..4].copy_from_slice(&(PARAMS_BYTES as u32).to_ne_bytes());
        let bytes = self.send("report its attributes", order::GET_PARAMS, id, memory)?;
        Ok(Attributes::parse(bytes[..].try_into().expect("the length is unchanged")))
    }

    /// Returns the description of a device; `None` if it does not exist.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn info(&self, id: u32) -> Result<Option<DeviceInfo>, UblkError> {
        let memory = vec![0; INFO_BYTES];
        match self.send("report its state", order::GET_DEV_INFO, id, memory) {
            Err(error) if matches!(error.number(), Some(libc::ENODEV | libc::EINVAL)) => Ok(None),
            result => Ok(Some(info(&result?))),
        }
    }

    /// Starts a device whose queues already accept requests.
    ///
    /// # Errors
    /// When the kernel refuses, or the queues accept none.
    pub fn start(&self, id: u32) -> Result<(), UblkError> {
        self.with_pid("start it", order::START_DEV, id)
    }

    /// Assigns a device that waits for a server to this process. Its queues may accept requests
    /// next.
    ///
    /// # Errors
    /// When the device does not wait; EBUSY while the kernel is still processing the end of its
    /// last server.
    pub fn begin_recovery(&self, id: u32) -> Result<(), UblkError> {
        self.with_pid("start its recovery", order::START_USER_RECOVERY, id)
    }

    /// Ends the recovery once the queues accept requests: the waiting requests arrive.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn end_recovery(&self, id: u32) -> Result<(), UblkError> {
        self.with_pid("end its recovery", order::END_USER_RECOVERY, id)
    }

    /// Removes the block device after its requests have ended. The queues must be served until
    /// then.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&self, id: u32) -> Result<(), UblkError> {
        let name = format!("/dev/ublkb{id}");
        self.command(&name, "stop it", order::STOP_DEV, id, 0, Vec::new(), STOP_LIMIT).map(drop)
    }

    /// Deletes a stopped device as soon as its nodes are closed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete(&self, id: u32) -> Result<(), UblkError> {
        match self.send("delete it", order::DEL_DEV_ASYNC, id, Vec::new()) {
            // Kernels without the asynchronous command wait until the nodes are closed.
            Err(error) if error.number() == Some(libc::EOPNOTSUPP) => {}
            result => return result.map(drop),
        }
        self.send("delete it", order::DEL_DEV, id, Vec::new()).map(drop)
    }

    fn with_pid(&self, action: &'static str, number: u32, id: u32) -> Result<(), UblkError> {
        let (name, pid) = (format!("/dev/ublkb{id}"), std::process::id().into());
        self.command(&name, action, number, id, pid, Vec::new(), LIMIT).map(drop)
    }

    fn send(
        &self,
        action: &'static str,
        number: u32,
        id: u32,
        memory: Vec<u8>,
    ) -> Result<Vec<u8>, UblkError> {
        self.send_to(&format!("/dev/ublkb{id}"), action, number, id, memory)
    }

    fn send_to(
        &self,
        name: &str,
        action: &'static str,
        number: u32,
        id: u32,
        memory: Vec<u8>,
    ) -> Result<Vec<u8>, UblkError> {
        self.command(name, action, number, id, 0, memory, LIMIT)
    }

    /// Passes a command to the thread and waits for its result. Returns the memory of the command.
    #[allow(clippy::too_many_arguments)]
    fn command(
        &self,
        name: &str,
        action: &'static str,
        number: u32,
        id: u32,
        data: u64,
        memory: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, UblkError> {
        let stuck = || UblkError::Stuck { name: name.into(), action, limit };
        if self.stuck.load(SeqCst) {
            return Err(stuck());
        }
        let (done, answer) = channel();
        let order = Order { number, id, data, memory, done };
        // A thread that has ended counts as one that hangs.
        let answer = self.orders.send(order).ok().and_then(|()| answer.recv_timeout(limit).ok());
        let Some(answer) = answer else {
            // The thread still waits for this command and can execute no other.
            self.stuck.store(true, SeqCst);
            return Err(stuck());
        };
        answer.map_err(|source| UblkError::System { name: name.into(), action, source })
    }
}

fn info(bytes: &[u8]) -> DeviceInfo {
    DeviceInfo::parse(bytes.try_into().expect("the length is unchanged"))
}

/// Executes commands in the thread until the channel is closed.
fn obey(node: &File, mut ring: Ring, orders: &Receiver<Order>) {
    for mut order in orders {
        let result = carry_out(node, &mut ring, &mut order);
        let memory = std::mem::take(&mut order.memory);
        // A caller that no longer waits has already reported the timeout.
        order.done.send(result.map(|()| memory)).ok();
    }
}

fn carry_out(node: &File, ring: &mut Ring, order: &mut Order) -> io::Result<()> {
    let (memory, bytes) = (order.memory.as_mut_ptr() as u64, order.memory.len() as u16);
    // The pointer of an empty vector is dangling.
    let memory = if bytes == 0 { 0 } else { memory };
    let command = abi::order(order.id, memory, bytes, order.data);
    let entry = opcode::UringCmd80::new(Fd(node.as_raw_fd()), order.number).cmd(command).build();
    // SAFETY: the memory of the order is kept until the command has ended, for which this waits.
    unsafe { ring.submission().push(&entry) }.expect("one command at a time");
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("io_uring accepts no further commands: {error}"),
        }
        if let Some(done) = ring.completion().next() {
            let result = done.result();
            return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_support_is_reported() {
        let error = Control::at(Path::new("/nowhere/ublk-control")).unwrap_err();
        assert!(matches!(error, UblkError::NoModule(_)), "{error}");
        assert!(error.to_string().contains("modprobe ublk_drv"), "{error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "io_uring")]
    fn a_node_without_commands_refuses_each() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Ok(control) = Control::at(file.path()) else {
            return hostftl_test_skip::skipped("io_uring is refused");
        };
        for _ in 0..2 {
            let error = control.features().unwrap_err();
            assert!(error.number().is_some(), "{error}");
        }
    }

    #[test]
    fn after_a_timeout_commands_fail_at_once() {
        let (orders, queue) = channel();
        let control = Control { orders, stuck: AtomicBool::new(false) };
        let send_to = || {
            let (action, limit) = ("do it", Duration::from_millis(20));
            control.command("x", action, order::STOP_DEV, 0, 0, Vec::new(), limit)
        };
        assert!(matches!(send_to(), Err(UblkError::Stuck { .. })));
        drop(queue.recv().expect("the first was given to the thread"));
        assert!(matches!(send_to(), Err(UblkError::Stuck { .. })));
        assert!(queue.try_recv().is_err(), "the second was not");
    }
}
