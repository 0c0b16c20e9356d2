//! The volumes of an open pool by name: the one thing that frontends on all threads share with the control.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::client::VolumeShared;
use sinew_format::model::volume_limits::VolumeLimits;

/// Volumes by name, for frontends on any thread.
#[derive(Clone, Default, Debug)]
pub struct Catalog(Arc<Mutex<BTreeMap<String, Arc<VolumeShared>>>>);

impl Catalog {
    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// A volume.
    pub fn get(&self, name: &str) -> Option<Arc<VolumeShared>> {
        self.lock().get(name).cloned()
    }

    /// Lets all requests begin that limits of volumes hold back, and all that come: the server is to end.
    pub fn lift_limits(&self) {
        self.lock().values().for_each(|volume| volume.set_limits(0, VolumeLimits::NONE));
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<VolumeShared>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
