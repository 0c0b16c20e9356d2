//! A value for each table page of a shard.

use sinew_format::table_page::PageId;

/// The values; those that were never set are the default.
#[derive(Default)]
pub(super) struct PerPage<T> {
    shard: T,
    stripes: Vec<T>,
    map: Vec<T>,
}

impl<T: Clone + Default> PerPage<T> {
    /// The value of a page; `None` if there is no room for one yet.
    pub(super) fn get(&self, page: PageId) -> Option<&T> {
        match page {
            PageId::Shard => Some(&self.shard),
            PageId::Stripes(number) => self.stripes.get(number as usize),
            PageId::Map(number) => self.map.get(number as usize),
        }
    }

    /// The value of a page, to be changed.
    pub(super) fn get_mut(&mut self, page: PageId) -> &mut T {
        let (values, number) = match page {
            PageId::Shard => return &mut self.shard,
            PageId::Stripes(number) => (&mut self.stripes, number as usize),
            PageId::Map(number) => (&mut self.map, number as usize),
        };
        if values.len() <= number {
            values.resize(number + 1, T::default());
        }
        &mut values[number]
    }

    /// All pages with room for a value, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PageId, &T)> {
        let shard = std::iter::once((PageId::Shard, &self.shard));
        let stripes = self.stripes.iter().enumerate().map(|(n, value)| (PageId::Stripes(n as u32), value));
        let map = self.map.iter().enumerate().map(|(n, value)| (PageId::Map(n as u32), value));
        shard.chain(stripes).chain(map)
    }
}
