//! Storage with small, reused indexes, so that steady traffic allocates nothing.

/// "No index", in lists that are threaded through a [`Slab`].
pub(super) const NIL: u32 = u32::MAX;

/// Values with stable indexes.
#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.items.get_mut(index as usize) {
                *slot = Some(value);
            }
            return index;
        }
        self.items.push(Some(value));
        self.items.len() as u32 - 1
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.items.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().enumerate().filter_map(|(index, item)| Some((index as u32, item.as_ref()?)))
    }

    /// One past the largest index ever used.
    pub(super) fn bound(&self) -> u32 {
        self.items.len() as u32
    }
}
