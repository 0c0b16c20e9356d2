//! Reading one copy of a table page.

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::PageHeader;
use sinew_members::members::Members;

use crate::store::dirty_pages::PageCopy;

/// A page of this shard that is intact in a slot of its page area, with its header.
pub(crate) async fn read<I: Io>(
    members: &Members<I>,
    shard: usize,
    copy: PageCopy,
) -> Option<(PageHeader, Buf)> {
    let offset = members.get(copy.member).layout.page_offset(shard, copy.slot);
    let data = members.read_at(copy.member, offset, PAGE_BYTES).await.ok()?;
    let header = PageHeader::open(data.bytes()).ok()?;
    (usize::from(header.shard) == shard).then_some((header, data))
}
