//! Stub.
pub const PAGE_INDICES: u32 = 4032;
#[derive(Default)]
pub struct RunMap(std::collections::BTreeMap<u32, u32>);
impl RunMap {
    pub fn new() -> Self { Self::default() }
    pub fn get(&self, i: u32) -> Option<u32> { self.0.get(&i).copied() }
    pub fn set(&mut self, i: u32, v: Option<u32>) { match v { Some(v) => { self.0.insert(i, v); } None => { self.0.remove(&i); } } }
    pub fn set_run(&mut self, i: u32, n: u32, v: u32) { for k in 0..n { self.0.insert(i + k, v + k); } }
    pub fn clear_run(&mut self, i: u32, n: u32, mut f: impl FnMut(u32, u32)) { let keys: Vec<_> = self.0.range(i..i + n).map(|(a, b)| (*a, *b)).collect(); for (k, v) in keys { self.0.remove(&k); f(k, v); } }
    pub fn get_run(&self, i: u32, max: u32) -> (Option<u32>, u32) { let f = self.get(i); let mut n = 1; while n < max { let g = self.get(i + n); if g != f.map(|v| v + n) { break; } n += 1; } (f, n) }
    pub fn drop_page(&mut self, _p: u32) {}
    pub fn for_each_in_page(&self, p: u32, mut f: impl FnMut(u32, u32)) { for (a, b) in self.0.range(p * PAGE_INDICES..(p + 1) * PAGE_INDICES) { f(*a, *b); } }
    pub fn memory_bytes(&self) -> usize { self.0.len() * 16 }
}
