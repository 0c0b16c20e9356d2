//! The columns and charts of reliability by arithmetic alone.

use crate::file::published::Unit;
use crate::report::charts::SweptChart;
use crate::report::columns::Column;
use crate::results::reliability::{
    AgeingFigures, FlashLifeFigures, PoolLossFigures, ReliabilityFigures as F,
};

fn pool(f: &F, figure: impl Fn(&PoolLossFigures) -> f64) -> Option<f64> {
    f.pool.as_ref().map(figure)
}

fn flash(f: &F, figure: impl Fn(&FlashLifeFigures) -> f64) -> Option<f64> {
    f.flash.as_ref().map(figure)
}

fn ageing(f: &F, figure: impl Fn(&AgeingFigures) -> f64) -> Option<f64> {
    f.ageing.as_ref().map(figure)
}

/// The columns of the table.
pub(crate) const COLUMNS: [Column<F>; 21] = [
    Column { heading: "rebuild h", figure: |f| pool(f, |p| p.rebuild_hours), unit: Unit::Magnitude },
    Column { heading: "MTTDL y", figure: |f| pool(f, |p| p.mttdl_years), unit: Unit::Magnitude },
    Column { heading: "P(pool lost)", figure: |f| pool(f, |p| p.loss), unit: Unit::Magnitude },
    Column { heading: "bytes/y", figure: |f| pool(f, |p| p.pool_bytes_per_year), unit: Unit::Magnitude },
    Column { heading: "h", figure: |f| pool(f, |p| p.latent_loss), unit: Unit::Magnitude },
    Column { heading: "any loss y", figure: |f| pool(f, |p| p.any_mttdl_years), unit: Unit::Magnitude },
    Column { heading: "P(any loss)", figure: |f| pool(f, |p| p.any_loss), unit: Unit::Magnitude },
    Column {
        heading: "latent bytes/y",
        figure: |f| pool(f, |p| p.latent_bytes_per_year),
        unit: Unit::Magnitude,
    },
    Column {
        heading: "sampled",
        figure: |f| Some(f.pool.as_ref()?.sampled_any_loss?.mean),
        unit: Unit::Magnitude,
    },
    Column {
        heading: "trials",
        figure: |f| Some(f.pool.as_ref()?.trials_any_loss?.mean),
        unit: Unit::Magnitude,
    },
    Column { heading: "programs", figure: |f| flash(f, |f| f.programs), unit: Unit::Number },
    Column { heading: "live in victims", figure: |f| flash(f, |f| f.victim_live), unit: Unit::Part },
    Column { heading: "P/E", figure: |f| flash(f, |f| f.cycles), unit: Unit::Number },
    Column { heading: "life used", figure: |f| flash(f, |f| f.life_used), unit: Unit::Part },
    Column { heading: "page errors", figure: |f| flash(f, |f| f.now.page), unit: Unit::Magnitude },
    Column { heading: "pages lost", figure: |f| flash(f, |f| f.now.page_loss), unit: Unit::Magnitude },
    Column { heading: "as ECC at", figure: |f| flash(f, |f| f.ecc_age), unit: Unit::Part },
    Column { heading: "second in a day", figure: |f| ageing(f, |a| a.second_within_day), unit: Unit::Part },
    Column { heading: "in 7 days", figure: |f| ageing(f, |a| a.second_within_week), unit: Unit::Part },
    Column { heading: "in 30 days", figure: |f| ageing(f, |a| a.second_within_month), unit: Unit::Part },
    Column { heading: "most/least writes", figure: |f| f.ageing.as_ref()?.writes_ratio, unit: Unit::Number },
];

/// The charts against swept values.
pub(crate) const CHARTS: [SweptChart<F>; 9] = [
    SweptChart {
        title: "Probability that a pool is lost in the mission",
        path: "reliability.pool.loss",
        figure: |f| pool(f, |p| p.loss),
        unit: Unit::Magnitude,
    },
    SweptChart {
        title: "Probability that any data is lost in the mission",
        path: "reliability.pool.any_loss",
        figure: |f| pool(f, |p| p.any_loss),
        unit: Unit::Magnitude,
    },
    SweptChart {
        title: "Mean years until a pool is lost",
        path: "reliability.pool.mttdl_years",
        figure: |f| pool(f, |p| p.mttdl_years),
        unit: Unit::Magnitude,
    },
    SweptChart {
        title: "Bytes lost per year with pools",
        path: "reliability.pool.pool_bytes_per_year",
        figure: |f| pool(f, |p| p.pool_bytes_per_year),
        unit: Unit::Magnitude,
    },
    SweptChart {
        title: "Pages programmed per host page",
        path: "reliability.flash.programs",
        figure: |f| flash(f, |f| f.programs),
        unit: Unit::Number,
    },
    SweptChart {
        title: "P/E cycles",
        path: "reliability.flash.cycles",
        figure: |f| flash(f, |f| f.cycles),
        unit: Unit::Number,
    },
    SweptChart {
        title: "Probability that a page is lost",
        path: "reliability.flash.now.page_loss",
        figure: |f| flash(f, |f| f.now.page_loss),
        unit: Unit::Magnitude,
    },
    SweptChart {
        title: "Probability that a second drive wears out within 7 days of the first",
        path: "reliability.ageing.second_within_week",
        figure: |f| ageing(f, |a| a.second_within_week),
        unit: Unit::Part,
    },
    SweptChart {
        title: "Probability that a second drive wears out within 30 days of the first",
        path: "reliability.ageing.second_within_month",
        figure: |f| ageing(f, |a| a.second_within_month),
        unit: Unit::Part,
    },
];
