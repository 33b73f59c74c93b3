-- A process that serves queues and placed work has one book for both. Its worker that is called has the capacity; a
-- lease of claimed work that takes of it names the book. A worker without a book has one of its own.
alter table holdfast.workers add column book text;
create index workers_of_a_book on holdfast.workers (book) where book is not null;
alter table holdfast.leases add column book text;
create index claimed_leases_of_a_book on holdfast.leases (book) where book is not null;
