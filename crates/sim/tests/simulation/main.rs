//! Named scenarios in the simulated world: one program, since each would compile the engine again.

mod absent;
mod array_journal;
mod array_log;
mod arrays;
mod damage;
mod durability;
mod failed_pool;
mod faults;
mod given_up;
mod governor;
mod growth;
mod hung;
mod limits;
mod lost_pages;
mod md;
mod mirrors;
mod model;
#[cfg(feature = "mutations")]
mod mutations_shown;
mod opening;
mod page_reach;
mod processors;
mod protections;
mod replacement;
mod returned;
mod shares;
mod slow;
mod table_cache;
mod thin;
mod world;
