-- Which token somebody has shown who did something: names of tokens are given again once they are revoked.
alter table holdfast.actions add column token_id text collate "C";
