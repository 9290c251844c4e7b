//! A short list with a fixed capacity that lives where it is declared.

/// At most `N` values, in order.
#[derive(Debug)]
pub struct Few<T, const N: usize> {
    items: [Option<T>; N],
    len: u8,
}

impl<T, const N: usize> Default for Few<T, N> {
    #[inline]
    fn default() -> Self {
        Few { items: [const { None }; N], len: 0 }
    }
}

impl<T, const N: usize> Few<T, N> {
    /// An empty list.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// A list of one value.
    #[inline]
    pub fn one(item: T) -> Self {
        let mut item = Some(item);
        Few { items: core::array::from_fn(|_| item.take()), len: 1 }
    }

    /// Takes the values out, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let len = core::mem::take(&mut self.len);
        self.items[..usize::from(len)].iter_mut().filter_map(Option::take)
    }

    /// Appends a value.
    ///
    /// # Panics
    /// When the list is full.
    #[inline]
    pub fn push(&mut self, item: T) {
        assert!(self.len() < N, "a list of at most {N} is full");
        self.items[self.len()] = Some(item);
        self.len += 1;
    }

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }

    /// The values in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten()
    }
}

impl<T, const N: usize> IntoIterator for Few<T, N> {
    type Item = T;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<T>, N>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter().flatten()
    }
}

impl<T, const N: usize> FromIterator<T> for Few<T, N> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Few::new();
        items.into_iter().for_each(|item| few.push(item));
        few
    }
}
