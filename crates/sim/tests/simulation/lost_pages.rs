//! Table pages that are lost on more members than the pool survives: an opening notices it, and never takes what is left for all.

use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_engine::pool::{self, Found};
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::{PageHeader, PageId};
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_sim::{OpenError, OpenPool};

use crate::table_cache::{BLOCKS, Scene};

/// Where a version of a page is: the member, and the place on its device.
type Places = Vec<(usize, u64)>;

/// All versions of all pages that are on the members, by their LSN.
fn versions(scene: &Scene) -> BTreeMap<PageId, BTreeMap<u64, Places>> {
    let mut versions: BTreeMap<PageId, BTreeMap<u64, Places>> = BTreeMap::new();
    for (i, member) in scene.members.iter().enumerate() {
        let layout = &scene.pool.control.config().members[i].layout;
        for slot in 0..layout.page_slots {
            let (io, device, at) = (scene.world.io(), member.device, layout.page_offset(0, slot));
            let read = async move { io.read(device, at, Buf::zeroed(PAGE_BYTES)).await };
            let (page, result) = scene.world.block_on(read).unwrap();
            result.unwrap();
            if let Ok(header) = PageHeader::open(page.bytes()) {
                versions.entry(header.page).or_default().entry(header.lsn).or_default().push((i, at));
            }
        }
    }
    versions
}

fn spoil(scene: &Scene, places: &Places) {
    for &(member, at) in places {
        scene.world.device(scene.members[member].device).spoil(at..at + PAGE_BYTES as u64);
    }
}

/// The pool after a clean stop, and after that all copies of the newest version of a page became unreadable.
fn damaged(page: PageId) -> Scene {
    let scene = Scene::new();
    scene.close();
    let versions = versions(&scene);
    let (_, newest) = versions[&page].last_key_value().expect("the page was written");
    spoil(&scene, newest);
    scene
}

fn refused(scene: &Scene) -> Result<(), String> {
    match Scene::try_open(&scene.world, &scene.members, None) {
        Err(OpenError::Recover(RecoverError::PagesLost { shard: 0 })) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("the pool was opened".to_owned()),
    }
}

/// Without the newest version of some page, the pool is not opened as if nothing were lost.
pub(crate) fn an_opening_notices_lost_pages() -> Result<(), String> {
    let whole = Scene::new();
    whole.close();
    let mut with_older = 0;
    for (page, versions) in versions(&whole) {
        let scene = damaged(page);
        if page == PageId::Shard {
            // It has the progress of background work.
            Scene::try_open(&scene.world, &scene.members, None).map_err(|error| error.to_string())?;
            continue;
        }
        with_older += usize::from(versions.len() > 1);
        refused(&scene).map_err(|error| format!("without {page:?}: {error}"))?;
    }
    assert!(with_older > 0, "of no page an older version was left");
    let without_any = Scene::new();
    without_any.close();
    (0..without_any.members.len()).for_each(|member| without_any.spoil_pages_of(member)());
    refused(&without_any)
}

#[test]
fn lost_pages_are_noticed() {
    assert_eq!(an_opening_notices_lost_pages(), Ok(()));
}

#[test]
fn what_the_pool_survives_is_no_loss() {
    for member in 0..Scene::new().members.len() {
        let scene = Scene::new();
        scene.close();
        scene.spoil_pages_of(member)();
        assert!(Scene::try_open(&scene.world, &scene.members, None).is_ok(), "member {member}");
    }
}

fn last_resort_with(table_cache: Option<u64>) {
    let whole = Scene::new();
    whole.close();
    let mut failed = 0;
    for page in versions(&whole).into_keys() {
        let mut scene = damaged(page);
        let (io, members) = (scene.world.io(), scene.members.clone());
        let opened = scene.world.block_on(async move {
            let found = pool::discover_read_only(&io, &members).await.unwrap();
            let (mode, error) = (found.mode, RecoverError::PagesLost { shard: 0 });
            assert!(mode == OpenMode::ReadOnly && found.has_last_resort(&error));
            let found = pool::discover_as_last_resort(&io, &members).await.unwrap();
            assert!(!found.has_last_resort(&error));
            OpenPool::open_found(io, Found { table_cache, ..found }, || false).await
        });
        scene.pool = Rc::new(opened.unwrap().unwrap());
        assert_eq!(scene.pool.control.mode(), OpenMode::LastResort);
        for block in 0..BLOCKS {
            match scene.read(block) {
                Ok(found) => {
                    let newest = scene.versions[block as usize];
                    let is_known = (1..=newest).any(|version| Scene::content_of(block, version) == found);
                    assert!(is_known, "{page:?}: block {block}");
                }
                Err(_) => failed += 1,
            }
        }
    }
    assert!(failed > 0, "nothing was lost");
}

#[test]
fn as_a_last_resort_blocks_fail_or_have_a_content_that_they_had() {
    last_resort_with(None);
    // All tables are in memory all the same.
    last_resort_with(Some(0));
}
