//! What a policy needs of each event, as slots of a record.

use super::call::CallFields;
use crate::event::{FieldId, Record, Schema};
use crate::policy::{Cost, Policy, names};
use crate::summary::LimitInfo;

/// A value that an event must have for a limit to apply.
#[derive(Debug, Clone)]
pub struct Condition {
    pub field: FieldId,
    pub text: String,
}

/// What one draw costs.
#[derive(Debug, Clone, Copy)]
pub enum CostOf {
    Constant(u64),
    Field(FieldId),
}

/// A `[[limit]]` in slots.
#[derive(Debug, Clone)]
pub struct Rule {
    pub key: Vec<FieldId>,
    pub cost: CostOf,
    pub when: Vec<Condition>,
}

/// A part of a key, for the summary.
#[derive(Debug, Clone, Copy)]
struct KeyPart {
    field: FieldId,
    /// What an absent field counts as.
    default: Option<&'static str>,
}

/// Limits by their place in the pipeline, and the slots they read.
#[derive(Debug, Clone)]
pub struct Layout {
    pub limits: Vec<LimitInfo>,
    keys: Vec<Vec<KeyPart>>,
    pub call: CallFields,
    pub rules: Vec<Rule>,
    /// The place of the first `[[limit]]`.
    pub first_rule: usize,
}

impl Layout {
    /// Makes slots in `schema` for everything that `policy` names.
    pub fn new(policy: &Policy, schema: &mut Schema) -> Self {
        let mut layout = Self {
            limits: Vec::new(),
            keys: Vec::new(),
            call: CallFields::default(),
            rules: Vec::new(),
            first_rule: 0,
        };
        if let Some(guard) = &policy.agent_velocity {
            if guard.config.max_requests_per_agent.is_some() {
                layout.call.agent = Some(schema.field("agent"));
                layout.add(schema, names::AGENT, &["agent"]);
            }
            if guard.config.max_requests_per_session.is_some() {
                layout.call.agent = Some(schema.field("agent"));
                layout.call.capability = Some(schema.field("capability"));
                layout.add(schema, names::SESSION, &["agent", "capability"]);
            }
        }
        if let Some(guard) = &policy.velocity {
            let config = &guard.config;
            let limits = [
                (names::INVOCATIONS, config.max_invocations_per_window.is_some()),
                (names::SPEND, config.max_spend_per_window.is_some()),
            ];
            for (name, _) in limits.into_iter().filter(|&(_, configured)| configured) {
                layout.call.capability = Some(schema.field("capability"));
                layout.call.grant = Some(schema.optional_field("grant"));
                layout.add(schema, name, &["capability", "grant"]);
            }
            if config.max_spend_per_window.is_some() {
                layout.call.cost = Some(schema.field("cost"));
            }
        }
        layout.first_rule = layout.limits.len();
        for limit in &policy.limits {
            let key: Vec<&str> = limit.key.iter().map(String::as_str).collect();
            layout.add(schema, &limit.name, &key);
            layout.rules.push(Rule {
                key: key.iter().map(|name| schema.field(name)).collect(),
                cost: match &limit.cost {
                    Cost::Constant(tokens) => CostOf::Constant(*tokens),
                    Cost::Field(name) => CostOf::Field(schema.field(name)),
                },
                when: limit
                    .when
                    .iter()
                    .map(|(name, text)| Condition { field: schema.field(name), text: text.clone() })
                    .collect(),
            });
        }
        layout
    }

    fn add(&mut self, schema: &mut Schema, name: &str, key: &[&str]) {
        let part = |field: &&str| KeyPart {
            field: schema.field(field),
            default: (*field == "grant" && name.starts_with("velocity.")).then_some("0"),
        };
        self.keys.push(key.iter().map(part).collect());
        let key = key.iter().map(|&field| field.to_owned()).collect();
        self.limits.push(LimitInfo { name: name.to_owned(), key });
    }

    /// The limits' names by their place.
    pub fn names(&self) -> Vec<String> {
        self.limits.iter().map(|limit| limit.name.clone()).collect()
    }

    /// The values that make the event's key of a limit, as far as the event has them.
    pub fn key<'r>(&self, limit: usize, record: &'r Record) -> impl Iterator<Item = &'r str> {
        self.keys[limit].iter().filter_map(|part| record.field(part.field).text().or(part.default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;

    #[test]
    fn limits_have_their_places_in_the_order_in_which_they_decide() {
        let text = r#"
            [[limit]]
            name = "x"
            key = ["ip", "path"]
            rate = { tokens = 1, per = "1s" }
            cost = "bytes"
            when = { method = "POST" }
            [velocity]
            max_spend_per_window = 5
            [agent_velocity]
            max_requests_per_session = 2
            max_requests_per_agent = 1
        "#;
        let policy = Policy::parse("p", text).unwrap();
        let mut schema = Schema::new(&[]).unwrap();
        let layout = Layout::new(&policy, &mut schema);
        let expected = ["agent_velocity.agent", "agent_velocity.session", "velocity.spend", "x"];
        assert_eq!(layout.names(), expected);
        assert_eq!(layout.first_rule, 3);
        let mut record = Record::new(schema.len());
        record.field_mut(layout.call.capability.unwrap()).set(Kind::Text, "c");
        assert_eq!(layout.key(2, &record).collect::<Vec<_>>(), ["c", "0"], "an absent grant is grant 0");
        assert_eq!(layout.key(1, &record).collect::<Vec<_>>(), ["c"], "an absent agent is absent");
    }
}
