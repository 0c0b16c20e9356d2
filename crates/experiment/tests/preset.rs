//! All presets under the same small load.

use std::path::Path;
use std::sync::Arc;

use sinew_engine::pool::preset::{Part, Preset};
use sinew_experiment::batch::{self, Options};
use sinew_experiment::plan::Plan;
use sinew_experiment::report;
use sinew_experiment::results::{Simulated, StripeUpdates};

const SMALL: &str = r#"
description = "small"
preset = "sinew"

[run]
duration_s = 0.2
warm_up_s = 0.05

[[members]]
model = "datacenter"
count = 13
size = "96M"
pages = 16
aging = 0.1

[[volumes]]
size = "40M"
fill = true

[[volumes]]
size = "40M"
fill = true

[[volumes]]
size = "40M"
fill = true

[[volumes]]
size = "40M"
fill = true

[[volumes]]
size = "20M"
fill = true

[workload]
source.mix = [
    { volume = 0, source.like = { name = "tpc-c-like", volume_bytes = "40M" }, fold_into = "40M" },
    { volume = 1, source.like = { name = "virtual-desktop-like", volume_bytes = "40M" } },
    { volume = 3, source.like = { name = "exchange-like", volume_bytes = "40M" } },
    { volume = 4, source.like = { name = "proxy-like", volume_bytes = "20M" } },
]
"#;

fn plan(text: &str) -> Result<Plan, String> {
    Plan::new("small", text, Path::new(""), false).map_err(|error| error.to_string())
}

fn run(text: &str) -> Result<Simulated, String> {
    let options = Options { threads: 1, cache: None };
    let observer: batch::Observer = Arc::new(|_| {});
    let outcome = batch::execute(&plan(text)?, &options, &observer).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })?;
    Ok(outcome.results.runs[0].figures.simulated().expect("a simulation").clone())
}

fn of(preset: &str) -> String {
    SMALL.replace("preset = \"sinew\"", &format!("preset = \"{preset}\""))
}

/// Whether each member got requests.
fn used(figures: &Simulated) -> Vec<bool> {
    figures.members.iter().map(|member| member.reads + member.writes > 0).collect()
}

#[test]
fn every_preset_serves_the_same_requests() {
    let mut counts = Vec::new();
    for preset in Preset::ALL {
        let figures = run(&of(preset.name)).unwrap();
        for kind in figures.requests.values() {
            assert_eq!(kind.summary.errors, 0, "{}: {:?}", preset.name, kind.first_error);
        }
        let count: u64 = figures.requests.values().map(|kind| kind.summary.requests).sum();
        counts.push(count);
        let is_mapped = matches!(preset.part, Part::Mapped(_));
        assert_eq!(figures.pool.is_some(), is_mapped, "{}", preset.name);
        if let Some(pool) = &figures.pool {
            assert_eq!(pool.after.stored_bytes, 180 << 20, "{}: sum of all parts", preset.name);
        }
        // The last member is the spare of presets with groups.
        let is_elastic = matches!(preset.part, Part::Elastic(_));
        let has_groups = !(is_elastic || is_mapped && preset.parts == 1);
        assert_eq!(used(&figures)[12], !has_groups, "{}", preset.name);
        let share = figures.elastic.map(|elastic| elastic.share);
        match preset.name {
            "elastic-raid5-only" => assert_eq!(share, Some(0.0)),
            "elastic-raid10-only" => assert_eq!(share, Some(1.0)),
            name => assert_eq!(share.is_some(), is_elastic, "{name}"),
        }
    }
    assert!(counts[0] > 500 && counts.iter().all(|&count| count == counts[0]), "{counts:?}");
}

#[test]
fn volumes_are_dealt_to_the_parts_in_turn() {
    let alone = of("raid5x4").replace("volume = 1, ", "volume = 0, ").replace("volume = 3, ", "volume = 0, ");
    let figures = run(&alone).unwrap();
    assert_eq!(
        used(&figures),
        [[true; 3].as_slice(), &[false; 10]].concat(),
        "volumes 0 and 4 are on the first part"
    );
    let too_large = of("raid5x4").replace("size = \"20M\"", "size = \"200M\"");
    let refusal = run(&too_large).unwrap_err();
    assert!(refusal.contains("volumes.4.size: the volumes up to this one on its array"), "{refusal}");
}

/// Two mixes on two systems: volumes have the names of their workloads, and figures are compared by name.
#[test]
fn volumes_have_the_names_of_their_workloads() {
    let from = SMALL.find("[workload]").expect("it has a workload");
    let names = ["tpc-c-like", "virtual-desktop-like", "exchange-like", "proxy-like", "tensorflow-like"];
    let like = |name| format!("{{ name = \"{name}\", volume_bytes = \"40M\" }}");
    let likes = names.map(like).join(", ");
    let text = format!(
        r#"{}
[workload]
align = 4096
fold_into = "16M"
source.draw = {{ take = 4, seed = 1, number = 0, from = [{likes}] }}

[sweep]
"workload.source.draw.number" = [0, 1]

[[cases]]
name = "apart"
set = {{ preset = "raid5x4" }}

[[cases]]
name = "together"

[[references]]
what = "times as long"
figure = "volumes.*.latency.p50_ns"
of = {{ case = "apart" }}
over = {{ case = "together" }}
published = [0.1, 10]
source = "the file"

[[references]]
what = "less"
figure = "volumes.*.requests"
of = {{ case = "apart", set = {{ "workload.source.draw.number" = 1 }} }}
over = {{ case = "together", set = {{ "workload.source.draw.number" = 1 }} }}
less = true
published = 0
source = "the file"
"#,
        &SMALL[..from]
    );
    let options = Options { threads: 2, cache: None };
    let results = batch::execute(&plan(&text).unwrap(), &options, &(Arc::new(|_| {}) as _)).unwrap().results;
    let volumes = |run: usize| &results.runs[run].figures.simulated().unwrap().volumes;
    let mixes: Vec<Vec<&String>> = (0..4).map(|run| volumes(run).keys().collect()).collect();
    assert_eq!((&mixes[0], &mixes[1]), (&mixes[2], &mixes[3]), "both systems have the same mixes");
    assert_ne!(mixes[0], mixes[1]);
    for run in 0..4 {
        // The fifth volume has no workload.
        assert_eq!((volumes(run).len(), volumes(run)["volume4"].requests), (5, 0));
        let figures = results.runs[run].figures.simulated().unwrap();
        let by_kind: u64 = figures.requests.values().map(|kind| kind.summary.requests).sum();
        assert_eq!(volumes(run).values().map(|volume| volume.requests).sum::<u64>(), by_kind);
        let tpc = volumes(run).get("tpc-c-like");
        assert!(tpc.is_none_or(|tpc| tpc.requests > 500 && tpc.latency.p50_ns > 1000));
    }
    let [times, less] = &results.references[..] else { panic!("{:?}", results.references) };
    let ours = times.ours.unwrap();
    assert!(ours.low <= ours.mean && ours.mean <= ours.high && ours.low > 0.0, "{ours:?}");
    let none = less.ours.unwrap();
    assert_eq!((none.low, none.mean, none.high), (0.0, 0.0, 0.0), "the same requests");
    let text = report::text(&results);
    assert!(text.contains("tpc-c-like") && !text.contains("volume4"), "no row without requests: {text}");
    assert!(report::html(&results).unwrap().contains("Latency by volume"));
}

#[test]
fn settings_that_exclude_a_preset_are_rejected() {
    let refused = |from: &str, to: &str| plan(&of("raid50").replace(from, to)).unwrap_err();
    let preset = "preset = \"raid50\"";
    let unknown = refused(preset, "preset = \"raid7\"");
    assert!(unknown.contains("there is no preset raid7; the presets are sinew, raid5x4"), "{unknown}");
    let both = refused(preset, "preset = \"raid50\"\npool.width = 3");
    assert!(both.contains("preset: a preset defines target, pool and array"), "{both}");
    let few = refused("count = 13", "count = 11");
    assert!(few.contains("12 members or more, not 11"), "{few}");
    let buffer = refused(preset, "preset = \"nvraid\"\nlayer.buffer = 4096");
    assert!(buffer.contains("layer.buffer"), "{buffer}");
    let layer = refused(preset, "layer.spare = 0.2");
    assert!(layer.contains("only a preset has a layer"), "{layer}");
    let grows = refused(preset, "preset = \"raid50\"\ngrows = { added = [1] }");
    assert!(grows.contains("a preset cannot grow"), "{grows}");
}

fn with(preset: &str, pool: &str) -> Result<Simulated, String> {
    run(&format!("{}\n[pool]\n{pool}\n", of(preset)))
}

#[test]
fn spikes_are_counted_without_being_avoided() {
    let plain = run(&of("fusion-nd")).unwrap();
    let watched = with("fusion-nd", "step_around = \"watch\"").unwrap();
    assert!(plain.spikes.is_none(), "spikes were not detected");
    assert_eq!(watched.requests, plain.requests, "no member was avoided");
    let spikes = watched.spikes.unwrap();
    assert!(spikes.writes_met.is_some_and(|met| met < 1.0) && spikes.redirections == 0, "{spikes:?}");
    // Every request to flash takes longer than 20 us.
    let sensitive = with("fusionraid", "step_around = { given = { late_s = 20e-6, up = 1 } }").unwrap();
    let spikes = sensitive.spikes.unwrap();
    assert!(spikes.spikes > 0 && spikes.mean_ns > Some(0.0) && spikes.writes_met.is_none(), "{spikes:?}");
    assert!(spikes.redirections > 0 && sensitive.requests != plain.requests);
    let minutes = 13.0 * sensitive.duration_s / 60.0;
    assert_eq!(spikes.per_member_minute, spikes.spikes as f64 / minutes);
}

#[test]
fn conversion_can_be_disabled() {
    let space = |figures: &Simulated| {
        let pool = figures.pool.as_ref().expect("a mapped pool");
        (pool.work["stripes_converted"], pool.after.used_bytes)
    };
    let (converted, with_conversion) = space(&run(&of("fusionraid")).unwrap());
    let (none, without) = space(&with("fusionraid", "policy.convert_below_free = 0").unwrap());
    assert!(
        converted > 0 && none == 0 && without > with_conversion,
        "{converted}, {with_conversion}, {without}"
    );
}

#[test]
fn changes_of_a_preset_are_checked() {
    let refusal = |preset, pool| with(preset, pool).unwrap_err();
    assert!(refusal("raid5x4", "policy.convert_below_free = 0").contains("only a mapped pool has a policy"));
    assert!(refusal("sinew", "policy.convert_below_free = 101").contains("a percentage"));
    assert!(
        refusal("sinew", "width = 3").contains("only shards, throttle, spike_avoidance, battery and policy")
    );
    let given = "step_around = { given = { late_s = 0.005, up = 1, down = 1 } }";
    assert!(refusal("fusionraid", given).contains("pool.step_around"));
}

#[test]
fn an_equal_state_is_an_option_of_every_system() {
    let with = |preset: &str, members: &str, pool: &str| {
        let text = of(preset).replace("aging = 0.1", &format!("aging = 1.0\n{members}"));
        run(&format!("{text}\n[pool]\n{pool}\n"))
    };
    let of_state = |preset: &str, members: &str, pool: &str| with(preset, members, pool).unwrap();
    // Drives that are told what is free have less to move.
    let flash = |figures: &Simulated| figures.writes.flash_amplification.unwrap();
    for preset in ["sinew", "fusionraid"] {
        let moves = |discard| flash(&of_state(preset, "", &format!("policy.discard = {discard}")));
        assert!(moves(true) < moves(false), "{preset}: {} and {}", moves(true), moves(false));
    }
    let (aged, trimmed) = (of_state("raid50", "", ""), of_state("raid50", "trimmed = true", ""));
    assert!(flash(&trimmed) < flash(&aged), "{} and {}", flash(&trimmed), flash(&aged));
    let refused = with("raid50", "trimmed = true\nredundancy = { scheme = \"raid5\" }", "").unwrap_err();
    assert!(refused.contains("members.0.trimmed"), "{refused}");

    let median = |figures: &Simulated| figures.requests["write"].summary.latency.p50_ns;
    assert!(
        median(&of_state("sinew", "", "battery = true")) < median(&of_state("sinew", "", "battery = false"))
    );

    let used = |packing: &str| {
        let pool = format!("policy = {{ packing = \"{packing}\", convert_below_free = 0 }}");
        of_state("fusionraid", "", &pool).pool.expect("a mapped pool").after.used_bytes
    };
    assert!(used("packed") < used("whole-chunks"), "a write takes chunks for itself");
}

/// Every member of a pool has metadata. An array has no pool figures, but those of its stripe updates.
#[test]
fn metadata_and_stripe_updates_are_reported() {
    let pool = run(SMALL).unwrap().pool.unwrap();
    assert!(pool.metadata_bytes > 13 * (1 << 20) && pool.metadata_bytes < pool.member_bytes, "{pool:?}");
    let chunks = pool.member_bytes - pool.metadata_bytes;
    assert_eq!(chunks, pool.after.raw_bytes);
    let changes = run(&of("raid50")).unwrap().changes.unwrap();
    let slowest = changes.slowest.as_ref().unwrap();
    assert_eq!(slowest.changes, changes.changes.div_ceil(100));
    let total = |c: &StripeUpdates| c.wait_ns + c.read_ns + c.mark_ns + c.write_ns;
    assert!(total(slowest) > total(&changes));
}

#[test]
fn the_software_of_an_array_takes_time_for_writes() {
    let p50 = |figures: &Simulated, kind: &str| figures.requests[kind].summary.latency.p50_ns;
    let with_software = |preset: &str| run(&format!("{}\n[layer]\nsoftware = true\n", of(preset))).unwrap();
    let (plain, slower) = (run(&of("raid50")).unwrap(), with_software("raid50"));
    // The software adds 72 us or more to half of the writes.
    assert!(p50(&slower, "write") > p50(&plain, "write") + 40_000);
    assert!(p50(&slower, "read").abs_diff(p50(&plain, "read")) < 20_000);
    assert_eq!(
        with_software("sinew").requests,
        run(&of("sinew")).unwrap().requests,
        "the preset is not an array"
    );
}

#[test]
fn volumes_are_overwritten_in_pieces_of_any_size() {
    let of_size = |unit: &str| {
        run(&SMALL.replacen(
            "fill = true",
            &format!("fill = true\noverwrite = 0.5\noverwrite_unit = {unit}"),
            1,
        ))
    };
    let scattered = |figures: Simulated| figures.pool.expect("a mapped pool").before.table_bytes;
    assert!(scattered(of_size("4096").unwrap()) > scattered(of_size("\"64K\"").unwrap()));
    assert!(of_size("1000").unwrap_err().contains("volumes.0.overwrite_unit"));
    assert!(of_size("\"64M\"").unwrap_err().contains("exceed the size of the volume"));
}

#[test]
fn an_elastic_preset_sets_the_forms_itself() {
    let with = |setting: &str| {
        of("elastic")
            .replace("[run]", &format!("[array]\nlevel = \"raid5\"\nelastic = {{ {setting} }}\n\n[run]"))
    };
    assert!(plan(&with("expect = 1.4")).is_ok());
    let refusal = plan(&with("mirrored_share = 60")).unwrap_err();
    assert!(refusal.contains("a preset defines"), "{refusal}");
    let other = with("expect = 1.4").replace("\"elastic\"", "\"raid50\"");
    assert!(plan(&other).unwrap_err().contains("a preset defines"));
    let without_level = with("expect = 1.4").replace("level = \"raid5\"\n", "");
    assert!(plan(&without_level).unwrap_err().contains("level"));
}
