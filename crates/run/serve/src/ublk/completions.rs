//! Completion queue of one queue of a block device. Any thread may add answers, but only the
//! queue's own thread may pass them to the kernel.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use hostftl_io::Waker;
use hostftl_volume::front::{Answer, Answers};

/// Answers for one queue.
pub(super) struct Completions {
    answers: Mutex<Vec<Answer>>,
    /// Thread of the queue; it checks for answers after each step.
    owner: ThreadId,
    waker: Arc<Waker>,
}

impl Completions {
    /// Creates a completion queue for the calling thread, which sleeps on `waker`.
    pub(super) fn new(waker: Arc<Waker>) -> Arc<Self> {
        let owner = thread::current().id();
        Arc::new(Completions { answers: Mutex::default(), owner, waker })
    }

    /// Returns the answers since the last call.
    pub(super) fn drain(&self) -> Vec<Answer> {
        std::mem::take(&mut self.lock())
    }

    /// Returns whether there are answers.
    pub(super) fn has_some(&self) -> bool {
        !self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Answers for Completions {
    fn take(&self, answer: Answer) {
        self.lock().push(answer);
    }

    fn flush(&self) {
        if thread::current().id() != self.owner {
            self.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn answers_of_other_threads_wake_the_owner() {
        let waker = Arc::new(Waker::new().unwrap());
        let completions = Completions::new(waker.clone());
        let theirs = completions.clone();
        let answer = move || {
            thread::sleep(Duration::from_millis(10));
            theirs.take(Answer::new(7, Ok(()), None));
            theirs.flush();
        };
        let other = thread::spawn(answer);
        while !completions.has_some() {
            waker.sleep(None, || completions.has_some());
        }
        other.join().unwrap();
        assert_eq!(completions.drain().iter().map(|answer| answer.cookie).collect::<Vec<_>>(), [7]);
        assert!(!completions.has_some());
    }
}
