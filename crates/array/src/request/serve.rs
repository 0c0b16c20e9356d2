//! Dispatch of clients' requests.

use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_members::message::{Reply, Request};

use crate::request::Requests;

impl<I: Io> Requests<I> {
    /// Answers a client's request.
    ///
    /// # Errors
    /// As for the trait `Volume`.
    pub(crate) async fn serve(self: &Rc<Self>, request: Request) -> Result<Reply, VolumeError> {
        let changes =
            matches!(request, Request::Write { .. } | Request::Merge { .. } | Request::Unmap { .. });
        if changes && self.state.is_read_only() {
            return Err(VolumeError::ReadOnly);
        }
        if matches!(request, Request::Flush) && self.state.members().are_read_only() {
            return Ok(Reply::Done);
        }
        let _space = self.admit(request.stored_blocks()).await?;
        self.state.throttle().note_request(self.state.io());
        let _request = self.state.begin_request();
        match request {
            Request::Read { local, count } => self.read(local, count).await.map(Reply::Data),
            Request::Write { local, data } => self.write(local, data).await.map(|()| Reply::Done),
            Request::Merge { local, at, bytes } => {
                self.merge(local, at, bytes.into()).await.map(|()| Reply::Done)
            }
            Request::Unmap { local, count } => self.discard(local, count).await.map(|()| Reply::Done),
            Request::Extents { count, .. } => Ok(Reply::Extents(self.extents(count))),
            Request::Flush => self.journal.flush().await.map(|()| Reply::Done),
        }
    }
}
