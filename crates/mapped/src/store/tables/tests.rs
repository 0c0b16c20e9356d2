//! Tables that records from a damaged journal would make.

use sinew_core::ids::{ChunkAddr, MemberId, ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_format::journal_block::{Checksums, Record};
use sinew_format::model::config::{Config, MemberConfig, MemberState, WEIGHT_FULL};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::{MappedGeometry, Protection};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_format::model::stripe_form::StripeForm;
use sinew_format::record_check::RecordCheck;

use super::{Effects, Tables};

const HOME: Option<ChunkAddr> = Some(ChunkAddr { member: MemberId(0), chunk: 0 });

fn open(homes: Vec<Option<ChunkAddr>>) -> Record {
    Record::Open { stripe: StripeId(0), form: StripeForm::Parity, columns: 1, homes }
}

/// Four members of 64 MiB, stripes of 2+1, two shards.
fn config() -> Config {
    let protection = Protection::Parity1;
    let geometry =
        MappedGeometry { protection, data_columns: 2, shards: 2, checksums: true, journal_blocks: 64 };
    let geometry = geometry.checked_for(4).unwrap();
    let layout = geometry.member_layout(64 << 20, 4).unwrap();
    let member = |i: u8| MemberConfig {
        uuid: [i; 16],
        bytes: 64 << 20,
        layout,
        state: MemberState::Active,
        out_epoch: 0,
        path: format!("/dev/m{i}"),
        physical: 0,
        weight: WEIGHT_FULL,
    };
    Config {
        pool: [9; 16],
        name: "tank".into(),
        generation: 1,
        epoch: 1,
        geometry: PoolGeometry::Mapped(geometry),
        members: (0..4).map(member).collect(),
        volumes: Vec::new(),
        volume_next: 0,
        openings: Vec::new(),
        damage: Vec::new(),
        elastic_policy: ElasticPolicy::DEFAULT,
        open_on: None,
        states_reach: true,
    }
}

#[test]
fn tables_that_contradict_each_other_are_refused() {
    let config = config();
    let bounds = RecordCheck::new(&config);
    let homes = config.mapped().homes_per_stripe();
    let stripe = StripeId(0);
    let owner = |page, index| Record::PageOwner { page, volume: VolumeId(1), index };
    let write = Record::Write { block: ShardBlock(0), slot: SlotNo(0), crcs: Checksums::from_elem(7, 1) };
    let stolen = Record::Write { block: ShardBlock(1), slot: SlotNo(0), crcs: Checksums::from_elem(7, 1) };
    let beyond = Record::Write { block: ShardBlock(0), slot: SlotNo(16), crcs: Checksums::from_elem(7, 1) };
    let rehome = Record::Rehome { stripe, index: 0, home: HOME.unwrap() };
    let opened = || open(vec![HOME; homes]);
    let cases = [
        (true, vec![opened(), owner(0, 0), write.clone()]),
        (true, vec![opened(), owner(0, 0), owner(1, 1)]),
        (false, vec![owner(0, 0), write.clone()]),
        (false, vec![opened(), write.clone()]),
        (false, vec![opened(), owner(0, 0), beyond]),
        (false, vec![opened(), owner(0, 0), write, stolen]),
        (false, vec![opened(), owner(0, 0), owner(1, 0)]),
        (false, vec![rehome]),
        (false, vec![Record::Converted { stripe }]),
    ];
    for (right, records) in cases {
        let mut tables = Tables::new(config.mapped());
        for record in &records {
            assert_eq!(bounds.record(record), Ok(()));
            tables.apply(1, record, &mut Effects::default());
        }
        assert_eq!(tables.complete().is_ok(), right, "{records:?}");
    }
}
