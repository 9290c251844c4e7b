//! Metadata buffers that are at home or lent to a command.

use hostftl_core::{Command, MetaBuf, Page, Piece, Target};

/// A metadata buffer, at home or lent.
#[derive(Debug)]
pub(crate) struct MetaHome(Option<MetaBuf>);

impl MetaHome {
    /// Creates a buffer of `pages` zeroed pages.
    pub(crate) fn new(pages: usize) -> Self {
        MetaHome(Some(MetaBuf::new(pages)))
    }

    /// Returns whether the buffer is at home.
    pub(crate) fn is_home(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the pages for modification.
    ///
    /// # Panics
    /// If the buffer is lent.
    pub(crate) fn pages_mut(&mut self) -> &mut [Page] {
        self.0.as_mut().expect("the metadata buffer is present").pages_mut()
    }

    /// Lends the buffer.
    ///
    /// # Panics
    /// If it is lent already.
    pub(crate) fn lend(&mut self) -> MetaBuf {
        self.0.take().expect("a metadata buffer is lent once")
    }

    /// Takes the buffer back.
    ///
    /// # Panics
    /// If it was not lent.
    pub(crate) fn take_back(&mut self, buf: MetaBuf) {
        assert!(self.0.is_none(), "a metadata buffer returns once");
        self.0 = Some(buf);
    }

    /// Returns the pages.
    ///
    /// # Panics
    /// If the buffer is lent.
    pub(crate) fn pages(&self) -> &[Page] {
        self.0.as_ref().expect("the metadata buffer is present").pages()
    }
}

/// Returns the metadata buffer of a read, report or program.
///
/// # Panics
/// If the command has none.
pub(crate) fn into_meta(command: Command) -> MetaBuf {
    let found = match command {
        Command::Read { into: Target::Meta { buf, .. }, .. } => Some(buf),
        Command::Report { into, .. } => Some(into),
        Command::Program { gather, .. } => gather.into_iter().find_map(|piece| match piece {
            Piece::Meta { buf, .. } => Some(buf),
            _ => None,
        }),
        _ => None,
    };
    found.expect("the command has a metadata buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a metadata buffer is lent once")]
    fn a_buffer_is_lent_once() {
        let mut home = MetaHome::new(1);
        home.lend();
        assert!(!home.is_home());
        home.lend();
    }

    #[test]
    fn a_buffer_returns_with_its_command() {
        let mut home = MetaHome::new(2);
        let mut buf = home.lend();
        buf.pages_mut()[1].0[7] = 9;
        let into = Target::Meta { buf, pages: 2 };
        let command = Command::Read { device: 0, lba: 0, into, cause: hostftl_core::Cause::Map };
        home.take_back(into_meta(command));
        assert_eq!((home.is_home(), home.pages()[1].0[7]), (true, 9));
    }
}
