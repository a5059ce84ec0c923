//! The flags for the form of a webhook's messages, and the template in its file.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::failure::{Blame, Blamed, Failure};
use crate::delivery::check_preset;
use crate::subscriber::{Destination, MAX_TEMPLATE_BYTES, Preset, Subscriber, Template, TemplateKind};

#[derive(Args, Default)]
pub(super) struct FormFlags {
    /// The form of a webhook's messages: json is our own, cap is CAP 1.2, ntfy takes the topic's URL [default: json]
    #[arg(long, value_enum, value_name = "PRESET", conflicts_with = "email", help_heading = "Destination")]
    preset: Option<PresetName>,
    /// Your own form, in the language of Jinja, for --preset template: makes what its name ends with, .json, .xml or .txt
    #[arg(long, value_name = "FILE", conflicts_with = "email", help_heading = "Destination")]
    template: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PresetName {
    Json,
    Slack,
    Discord,
    Ntfy,
    Cap,
    Template,
}

impl FormFlags {
    pub fn is_empty(&self) -> bool {
        let FormFlags { preset, template } = self;
        preset.is_none() && template.is_none()
    }

    /// Sets the form that the flags make of the one before. Email has but one.
    pub fn apply(&self, subscriber: &mut Subscriber) -> Result<(), Failure> {
        if matches!(subscriber.destination, Destination::Email(_)) && self.is_empty() {
            subscriber.preset = Preset::default();
        }
        let named = match self.preset {
            None => None,
            Some(PresetName::Json) => Some(Preset::Json),
            Some(PresetName::Slack) => Some(Preset::Slack),
            Some(PresetName::Discord) => Some(Preset::Discord),
            Some(PresetName::Ntfy) => Some(Preset::Ntfy),
            Some(PresetName::Cap) => Some(Preset::Cap),
            Some(PresetName::Template) => return self.apply_template(subscriber),
        };
        match (named, &self.template) {
            (None, None) => {}
            (Some(preset), None) => subscriber.preset = preset,
            (None, Some(_)) if matches!(subscriber.preset, Preset::Template(_)) => return self.apply_template(subscriber),
            (_, Some(_)) => return Err(Failure::usage("--template belongs to --preset template")),
        }
        check_preset(&subscriber.destination, &subscriber.preset).map_err(Failure::usage)
    }

    fn apply_template(&self, subscriber: &mut Subscriber) -> Result<(), Failure> {
        let Some(file) = &self.template else {
            return match &subscriber.preset {
                Preset::Template(_) => Ok(()),
                _ => Err(Failure::usage("which template? Expected --template FILE beside --preset template")),
            };
        };
        subscriber.preset = Preset::Template(read(file)?);
        check_preset(&subscriber.destination, &subscriber.preset)
            .map_err(|fault| anyhow::anyhow!("{}: {fault}", file.display()))
            .blame(Blame::Data)
    }
}

fn read(file: &Path) -> Result<Template, Failure> {
    let mut text = String::new();
    // One byte more than may be shows that there are more.
    let most = MAX_TEMPLATE_BYTES as u64 + 1;
    std::fs::File::open(file)
        .and_then(|opened| opened.take(most).read_to_string(&mut text))
        .map_err(|fault| anyhow::anyhow!("cannot read the template {}: {fault}", file.display()))
        .blame(Blame::Running)?;
    let kind = match file.extension().and_then(|end| end.to_str()) {
        Some("xml") => TemplateKind::Xml,
        Some("txt") => TemplateKind::Text,
        _ => TemplateKind::Json,
    };
    Ok(Template { kind, text })
}
