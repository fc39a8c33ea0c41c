"""Every bound of Engram, each with its unit and its reason; `engram limits` prints them."""

from __future__ import annotations

QUERY_BYTES_MAX = 100_000
"""A pasted log is still a query; a book is a document."""

MESSAGE_BYTES_MAX = 10_000_000
"""The largest tool output seen in agent transcripts, with room to spare."""

MESSAGES_PER_CALL_MAX = 200
"""One append stays one short transaction."""

CALL_BYTES_MAX = 32_000_000
"""A request body is held in memory while it is parsed."""

BODY_BYTES_MAX = 100_000_000
"""Of a request with appended messages, a batch or a document as text. JSON spells text in up to three
times its bytes (`\\u00e9` for two), so a full call still fits; control characters, which take six, are
never most of a text."""

CONTROL_BODY_BYTES_MAX = 1_000_000
"""Of every other request, searches included: a full query fits in any spelling."""

MEMORY_BODY_BYTES_MAX = 2_000_000
"""Of a request with one memory: three times its bytes, and its tags."""

NOTES_BODY_BYTES_MAX = 20_000_000
"""Of a batch of notes: 100 of 2,000 characters with 50 tags each, in any spelling."""

UPLOAD_BODY_BYTES_MAX = 26_000_000
"""Of an MCP call with one part of an upload, as text in JSON's longest usual spelling or in base64."""

JSON_DEPTH_MAX = 64
"""Levels of a request: the deepest metadata within its envelope, with room to spare."""

JSON_VALUES_MAX = 20_000
"""Values of a request: 200 messages with a hundred each, metadata included. To build and to refuse one
takes 200 bytes and up to two microseconds, so all of them are 4 MB and 40 ms."""

JSON_VALUES_INLINE_MAX = 1_000
"""Values of a request that is parsed on the event loop, a millisecond or two."""

JSON_STRUCTURE_BYTES_MAX = 16_000_000
"""Of a request beside its long texts: 200 messages with full metadata. A parser reads it in one go."""

BODIES_BYTES_MAX = 2 * BODY_BYTES_MAX
"""Of all large bodies that one process has received in part or whole; half of it for one organisation,
which is the largest body."""

BODIES_WORK_BYTES_MAX = 12 * CALL_BYTES_MAX
"""Memory of the large requests that one process works on: a byte of text takes up to twelve while it
is decoded, analysed and stored, four of them for a wide character. So one full call at a time."""

SMALL_BODIES_BYTES_MAX = 32_000_000
"""As for large bodies, of those up to `CONTROL_BODY_BYTES_MAX`, which wait for no large one."""

SMALL_BODIES_WORK_BYTES_MAX = 64_000_000
"""As for large requests, of small ones."""

BODY_WAIT_S = 20
"""How long a large request waits for others to finish before its client is told to come back."""

PARSERS_MAX = 2
"""Threads that take large requests apart; more would keep the event loop from its turn."""

SSE_CALL_S = 120
"""How long the memory of a large message that came over SSE stays reserved while its call is at work."""

LINES_BYTES_WAITING_MAX = 1_000_000
"""Of lines of standard input that are read ahead; one longer line waits alone."""

UNREAD_BYTES_MAX = BODY_BYTES_MAX
"""Of a body that is refused unread and then thrown away, so that its client gets to the answer."""

UNREAD_S = 10
"""How long a refused client that closes its connection may go on sending before it is cut off."""

HEADER_BYTES_MAX = 65_536
"""Request line and headers together; credentials, cookies of proxies and traces fit many times."""

HEADERS_MAX = 100
"""Header fields of a request, trailers among them; browsers behind two proxies send 40."""

HEADER_S = 10
"""How long a client may take to send the headers of a request."""

TRANSFER_WINDOW_S = 20
"""How long a body or an answer may move too slowly before its connection is closed."""

TRANSFER_BYTES_PER_S_MIN = 1_000
"""Of a body that a client sends, or an answer that it reads: a tenth of what a bad modem does."""

KEEP_ALIVE_S = 75
"""How long a connection rests between requests: longer than agents pause, so they find it open."""

LINGER_S = 5
"""How long what a client still sends is thrown away after its answer, so that it can read that."""

SWEEP_S = 0.5
"""How often connections are checked for clients that are too slow."""

CONNECTIONS_MAX = 1_024
"""Open connections of a server process, unless `ENGRAM_CONNECTIONS_MAX` says otherwise; each may
have 64 KB of unfinished headers."""

CONNECTIONS_PER_ADDRESS_MAX = 256
"""Of these from one IPv4 address or one IPv6 network of 64 bits, unless
`ENGRAM_CONNECTIONS_PER_ADDRESS_MAX` says otherwise."""

PIPELINED_REQUESTS_MAX = 16
"""Requests that a client may send ahead of the answer to an earlier one."""

REQUESTS_AT_WORK_MAX = 128
"""Requests of one organisation that a process works at while no other organisation needs it: with
fewer, its appends would wait for its searches."""

REQUESTS_AT_WORK_SHARED_MAX = 2
"""The same while others need it: each one more makes everybody's searches slower by one search."""

REQUESTS_WAITING_MAX = 256
"""Requests of one organisation that wait for their turn; their bodies are not read yet."""

REQUEST_WAIT_S = 30
"""How long a request waits for its turn before it is told to come back later."""

LONG_REQUEST_S = 2
"""A request at work for so long waits for a model or a file, and leaves its place to a shorter one."""

NEIGHBOUR_S = 10
"""How long after its last request an organisation counts as one that needs the process too."""

RECEIVED_BYTES_PER_S_SHARED = 16_000_000
"""Of bodies that one organisation sends while others need the process: reading them from a fast
network would take all of the event loop."""

REFUSALS_PER_S_SHARED = 50
"""Answered to one address while organisations need the process; further ones are answered late."""

REFUSAL_DELAY_S_MAX = 1.0
"""The longest time that such an answer is held back."""

REFUSED_ADDRESSES_MAX = 1_000
"""Addresses whose refusals are counted, those that were refused last."""

WASTE_BYTES_PER_S = 16_000_000
"""Read and thrown away of what a client sends after its request was refused."""

TURNS_TICK_S = 0.1
"""How often requests that wait are looked after while nothing else moves them."""

OPEN_FILES_BESIDE_CONNECTIONS = 2_048
"""File descriptors that a server process keeps for databases, models and logs."""

METADATA_BYTES_MAX = 65_536
"""Metadata describes; content belongs into messages."""

STORED_ROW_BYTES = 128
"""What each stored row counts beside its texts: about what a row with its keys and its entries in
indexes takes, so that a million empty messages are not free. Stored counters are made with it: another
value needs a migration that counts anew.
"""

USAGE_DAYS_MAX = 400
"""A year and a month to compare with; older days are removed."""

METADATA_DEPTH_MAX = 32
"""Deeper nesting is a mistake or an attack on parsers."""

TAGS_MAX = 50
"""Tags are a filter, each a row of an index."""

TAG_CHARACTERS_MAX = 256
"""A tag is a word or a short path."""

TITLE_BYTES_MAX = 1_024
"""A title fits on a line."""

NAME_CHARACTERS_MAX = 256
"""Names of speakers, tools, agents and keys."""

PROJECT_CHARACTERS_MAX = 128
"""The bound engram-go's clients know."""

IDEMPOTENCY_KEY_CHARACTERS_MAX = 256
"""A UUID, a hash or a path."""

IDEMPOTENCY_HOURS = 24
"""How long a repeated append returns the first answer."""

SEARCH_RESULTS_MAX = 50
"""More results than this are a listing, not a search."""

TOKEN_BUDGET_MIN = 100
"""Below this no message fits."""

TOKEN_BUDGET_MAX = 100_000
"""More than any client's context window has left."""

MESSAGE_PAGE_MAX = 500
"""Messages returned by one `get_conversation`."""

WHOLE_NUMBER_MAX = 2**53
"""Larger whole numbers are not exact in every client."""

CONVERSATION_PAGE_MAX = 100
"""Conversations returned by one `list_conversations`."""

KEYS_PER_ORGANIZATION_MAX = 1_000
"""Keys are listed in one answer."""

FAILED_LOGINS_PER_ADDRESS_MAX = 20
"""Wrong credentials of one address a minute that are looked up; a person mistypes less often."""

FAILED_LOGINS_MAX = 1_000
"""The same of all addresses together, so that many of them do not reach the database either."""

FAILED_LOGIN_ADDRESSES_MAX = 10_000
"""Addresses whose failures are counted, about 2 MB; the one that failed longest ago gives way."""

KNOWN_CREDENTIALS_MAX = 10_000
"""Credentials that were right before, remembered by each process so that they are never held up."""

OPERATOR_FILE_BYTES_MAX = 65_536
"""Of the file of operators' tokens: several hundred operators."""

AUDIT_PENDING_MAX = 10_000
"""Kinds of events that wait for the next minute's audit rows; more are counted as lost."""

AUDIT_QUEUE_MAX = 10_000
"""Audit rows on their way to the audit log's file or to syslog; more are counted as lost."""

KEY_OVERLAP_S_MAX = 30 * 86_400
"""How long a rotated key may live on beside its successor; longer is two keys."""

KEY_ADDRESSES_MAX = 64
"""Addresses remembered for each key; from a forgotten one it is used as from a new one."""

NEW_ADDRESSES_SHOWN = 10
"""Addresses named in one audit row; the row counts them all."""

AUDIT_PAGE_MAX = 500
"""Audit rows returned by one answer."""

CONVERSATION_MESSAGES_MAX = 2**24 - 1
"""Sequences share a 64-bit row id with the conversation's number."""

WINDOW_MESSAGES = 5
"""A window gives a short message the context it was said in."""

WINDOW_STRIDE = 3
"""Neighbouring windows share two messages, so no exchange is cut everywhere."""

COMPRESS_BYTES_MIN = 128
"""Shorter content rarely gets smaller."""

QUERY_TERMS_MAX = 128
"""Distinct words of a query that are searched; the answer says when there were more."""

LEG_CANDIDATES = 200
"""Candidates each leg of the search contributes; more changed no figure."""

BACKFILL_BATCH_MAX = 1_000
"""One batch stays one short transaction."""

OPEN_ORGANIZATIONS_MAX = 64
"""Organisation files held open; each costs a few file descriptors and page caches."""

STORE_BUSY_S = 30
"""How long a process waits for another that writes the same file before it gives up."""

STATEMENT_S = 60
"""How long one statement of a request may take in PostgreSQL, unless a setting says otherwise: twice
the longest wait for a lock, so that such a wait ends with its own error."""

TRANSACTION_IDLE_S = 300
"""How long a PostgreSQL transaction may wait for its process, which may have been cut off."""

STORE_DOUBT_S = 10
"""How long a write waits to learn whether it was stored, when its database was lost meanwhile: for
as long as a standby takes to be promoted."""

WRITES_PER_COMMIT_MAX = 256
"""Pieces of work that share one commit; more would keep the first waiting."""

THREAD_SWITCH_S = 0.0001
"""How long one thread of a server may keep the interpreter while others wait. Python's own 5 ms make a
search beside one busy thread take 320 ms, because it gives up the interpreter some sixty times."""

READER_THREADS_MAX = 8
"""Reads that run at once in one process."""

WRITER_THREADS_MAX = 8
"""Organisations that one process writes in at once, where they share a database."""

IDLE_READERS_MAX = 4
"""Read connections kept open for each file; each may cost its page cache."""

RESOURCES_PAGE = 50
"""Conversations in one page of the MCP resource listing: people pick from it by eye."""

TRANSCRIPT_CHARACTERS_MAX = 100_000
"""A conversation read as an MCP resource goes into a context window whole."""

SSE_SESSIONS_MAX = 1_000
"""Open legacy SSE connections of one process; each holds a task and a socket."""

SSE_SESSIONS_PER_ORGANIZATION_MAX = 128
"""Of these for one organisation, so that eight of them are needed to keep others out."""

SSE_SESSIONS_PER_KEY_MAX = 32
"""Of these for one key: a program that loses its connections leaves keys of its colleagues alone."""

SSE_CHECK_S = 1
"""How often an open SSE session makes sure that its key is still valid."""

PAGE_CHARACTERS_MAX = 32_000_000
"""Text held in memory for one page of messages; a page cut there says where it goes on."""

INLINE_CHARACTERS_MAX = 8_000
"""Text worked on in the event loop: about 1 ms, and 15 where every word of it is new; more goes to a
thread."""

LONG_TEXT_CHARACTERS = 400_000
"""Longer texts are worked on one at a time in each process; shorter ones are a tenth of a second."""

MESSAGE_CHARACTERS_KEPT = 2_000_000
"""Messages remembered for each open organisation that searches found last."""

VECTOR_DIMENSIONS_MAX = 8_192
"""Wider than any embedder in use; a wider answer of a service is a mistake."""

QUERY_VECTORS_KEPT = 1_000
"""Vectors of recent queries remembered by each process, about 2 MB."""

QUERY_CHARACTERS_KEPT = 2_000
"""Longer queries are rarely asked twice, so their vectors are not remembered."""

MODEL_RETRY_S = 5
"""How long a model that could not be loaded is left alone before its files are read again."""

REMOTE_TOKENS_MAX = 512
"""What every embedding service can read; the tokenizer of a service is not known here."""

REMOTE_BATCH_TEXTS_MAX = 64
"""Texts in one request to an embedding service; common servers refuse more than this."""

REMOTE_BATCH_BYTES_MAX = 200_000
"""Text in one request to an embedding service, so that a request stays seconds long."""

REMOTE_RESPONSE_BYTES_MAX = 64_000_000
"""More than a full batch of the widest vectors in JSON."""

REMOTE_CONNECT_S = 3
"""An embedding service that does not take a connection by then is down."""

REMOTE_INDEXING_S = 60
"""How long an embedding service may take for a batch; a loaded CPU server needs it."""

REMOTE_QUERY_S = 5
"""How long a search waits for the vector of its query before it goes on with words."""

REMOTE_ATTEMPTS_MAX = 4
"""Tries of one batch before its job goes back to the queue."""

REMOTE_BACKOFF_S_MAX = 30
"""Longest wait between two tries, also when the service asks for a longer one."""

BREAKER_FAILURES_MAX = 5
"""Failures in a row after which an embedding service is left alone."""

BREAKER_OPEN_S = 10
"""How long it is left alone at first; each failed probe doubles it."""

BREAKER_OPEN_S_MAX = 300
"""The service is probed at least this often, so that it is found again."""

MODEL_CONNECT_S = 5
"""A hub that cannot be reached by then is passed over for the next source."""

MODEL_READ_S = 30
"""A download that brings nothing for so long is taken up anew."""

MODEL_ATTEMPTS_MAX = 5
"""Times a broken download is taken up again."""

MODEL_PACKAGE_S = 900
"""How long the package index may take for a package of some 30 MB."""

MODEL_LOCK_S = 1_800
"""How long to wait for another process that is getting the same model."""

VECTOR_BYTES_MAX = 1_000_000_000
"""Memory for vectors in each process: a million messages in two, or many small organisations."""

INSTANT_PASSAGE_TOKENS = 512
"""A static model reads texts of any length, but the mean of a whole book means nothing."""

INSTANT_PASSAGES_MAX = 64
"""Passages of a message that get instant vectors; deep ones cover the rest of a longer one."""

INDEX_BATCH_MESSAGES = 64
"""Messages leased for deep vectors at once: few, so that other processes find work too."""

INDEX_BATCH_CHARACTERS = 200_000
"""Text held in memory for one such batch, unless one message is longer."""

INDEX_DRAIN_S = 1.0
"""How long a search waits for the vectors of new messages where there are no instant ones."""

PASSAGE_TOKENS_MAX = 480
"""Below the window of common models, which also holds a prefix and special tokens."""

SENTENCE_CHARACTERS_MIN = 20
"""Of a sentence of a document with a vector of its own, three or four words; a shorter one goes with
the next."""

SENTENCE_TOKENS_MAX = 100
"""Of such a sentence, counted roughly; a longer one is cut where it can be."""

POSTINGS_KEPT = 100_000
"""Entries of words asked for last that are remembered for each open organisation, about 1.6 MB."""

ROW_FACTS_KEPT = 1_000_000
"""Messages and windows of an open organisation whose lengths are remembered, about 16 MB each."""

REEMBED_REFUSALS_MAX = 1_000
"""Messages that an embedder may give no vector before re-embedding stops: it is not the messages."""

NOTE_CHARACTERS_MIN = 10
"""Shorter notes say nothing that a later reader could use."""

NOTE_CHARACTERS_MAX = 2_000
"""A note is one fact; what is longer is a memory or a document."""

MEMORY_BYTES_MAX = 500_000
"""The bound engram-go's clients know; what is longer is a document."""

MEMORIES_PER_CALL_MAX = 100
"""One batch stays one short transaction."""

MEMORY_PAGE_MAX = 500
"""Memories returned by one listing."""

NOTE_PAGE_MAX = 50
"""Notes returned by one `list_entries`."""

RECALL_RESULTS_MAX = 500
"""What engram-go's clients may ask of one recall."""

CONTEXT_RESULTS_MAX = 10
"""Entries of one `fetch_context`: more would drown the question they are read for."""

CONTEXT_QUERY_CHARACTERS_MIN = 3
"""Fewer say nothing of the work that context is fetched for."""

CONTEXT_KEPT_S = 60
"""How long a fetched context is remembered while nothing is written."""

CONTEXTS_KEPT = 256
"""Contexts remembered by each process, a few kilobytes each as a rule."""

CONTEXT_CHARACTERS_KEPT = 40_000
"""Longer contexts are not remembered, so that all of them stay within 10 MB."""

SUPERSEDED_MARGIN = 20
"""Memories looked at beyond those asked for, so that one may come before what it supersedes."""

IMPORTANCE_MAX = 4
"""Importance goes from 0, critical, to 4, trivial."""

SOURCE_CHARACTERS_MAX = 256
"""A source is a name, a path or an address."""

REASON_BYTES_MAX = 2_048
"""Why a memory was forgotten, in a sentence or two."""

SUMMARY_BYTES_MAX = 8_192
"""A summary that is longer is a memory of its own."""

RELATION_HOPS_MAX = 2
"""Neighbours of neighbours; further away everything is related."""

RELATED_MAX = 50
"""Related memories brought along with one recalled memory."""

FEEDBACK_MEMORIES_MAX = 100
"""Memories one call of `memory_feedback` speaks of."""

FEEDBACK_KEPT = 100
"""What was last said of one memory; older words give way, for memories come to be seen otherwise."""

MEMORY_CHUNK_BYTES = 8_192
"""A memory up to this size is one chunk; what is longer is read in several."""

PROJECTS_PER_CALL_MAX = 100
"""Projects one recall may name; all of them are asked for otherwise."""

CONNECTED_MAX = 10
"""Related memories shown with one recalled memory; the answer says how many more there are."""

CHUNKS_PER_CALL_MAX = 100
"""Chunks one call of `memory_fetch` may name."""

MEMORY_CHUNK_TOKENS = 512
"""Chunks of a longer memory: a few paragraphs each."""

LANGUAGE_S = 60
"""How long a language model may take for an answer, all attempts together."""

LANGUAGE_ATTEMPTS_MAX = 3
"""Calls of a language model for one answer; whoever asked is waiting."""

LANGUAGE_RESPONSE_BYTES_MAX = 4_000_000
"""Far more than any answer Engram asks for."""

LANGUAGE_TEXT_CHARACTERS_MAX = 100_000
"""Of a text that a language model is to summarise: more than most models read well at once."""

SUMMARY_CHARACTERS = 400
"""Length a summary is made for; one sentence alone may be longer."""

CONSOLIDATE_MEMORIES_MAX = 100_000
"""Memories looked at by one consolidation: their sketches are held in memory, about 1.5 KB each."""

CONSOLIDATE_MERGES_MAX = 1_000
"""Merges of one consolidation; the answer lists each of them."""

IMPORT_FILES_MAX = 10_000
"""Files of others read by one `memory_ingest`; an export of Engram may have any number."""

PATH_PARTS_MAX = 32
"""Names in a path that a caller gives: whoever removes the tree holds a directory open for each."""

EXPORT_FILE_BYTES_MAX = 256_000_000
"""Of one file of an export when it is read back: a memory with all its versions."""

EPISODE_BYTES_MAX = 8_192
"""What an episode was about, or came to, in a few paragraphs."""

EPISODE_PAGE_MAX = 100
"""Episodes returned by one listing."""

MIGRATE_S = 45
"""How long one `memory_migrate_embedder` works before it answers how much is left."""

WHOLE_DOCUMENT_BYTES_MAX = 500_000
"""Documents up to here are their memory's content whole; larger ones are shown by a synopsis."""

DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
"""Where tier 1 ends, unless `ENGRAM_MAX_DOCUMENT_BYTES` says otherwise."""

RAW_DOCUMENT_BYTES_MAX = 50 * 1024 * 1024
"""The largest document, unless `ENGRAM_RAW_DOCUMENT_MAX_BYTES` says otherwise."""

CONFIGURED_DOCUMENT_BYTES_MAX = 1_000_000_000
"""What either setting may be raised to: a document has to be uploaded in one connection's time."""

DOCUMENT_PIECE_BYTES = 131_072
"""Bodies are kept in pieces of this size: each is compressed, proved and read for itself."""

DOCUMENT_PIECES_READ = 8
"""Pieces read in one transaction: a megabyte of memory, for an eighth of the walks between threads."""

DOCUMENT_PIECES_KEPT = 4
"""Pieces remembered for each open organisation: neighbouring chunks lie in the same one."""

DOCUMENT_STEP_BYTES = 262_144
"""Text of a document indexed in one transaction, so that others can write in between."""

DOCUMENT_PAGE_MAX = 100
"""Documents returned by one listing."""

UPLOAD_MINUTES = 30
"""How long an upload in parts may rest before what has arrived of it is removed."""

UPLOADS_MAX = 500
"""Uploads of an organisation under way at once."""

UPLOAD_PART_BYTES_MAX = 8 * 1024 * 1024
"""One part of an upload, which is held in memory."""

REGEX_CHARACTERS_MAX = 1_024
"""A longer pattern is a program, not a question."""

REGEX_STEPS_MAX = 10_000
"""Of a compiled pattern; each may be tried at every byte, so that a larger one could take minutes."""

SUBSTRINGS_MAX = 100
"""Texts that one query of a document may look for."""

SUBSTRING_CHARACTERS_MAX = 1_024
"""Of each of these texts, as of a pattern."""

QUERY_MATCHES_MAX = 10_000
"""Matches that one query of documents looks at; more fit into no answer."""

MATCHES_SHOWN_MAX = 20
"""Matches named with each span of an answer; their number is told besides."""

QUERY_WINDOW_CHARACTERS_MAX = 100_000
"""Text around each match of a query of a document."""

QUERY_DOCUMENTS_MAX = 20
"""Documents that one query may ask at once."""

REGEX_S = 5
"""How long a pattern may look through documents before the spans found so far are the answer."""

DOCUMENT_CHUNK_CHARACTERS = 2_000
"""About what a model reads at once, and what a reader takes in at a glance."""

HEADING_CHARACTERS_MAX = 200
"""Of a heading told with a chunk or in a synopsis; of a longer one the beginning is told."""

SHORT_SECTIONS_MAX = 2_000
"""Sections below 200 characters in a document; further ones share chunks, lest every line be one."""

SYNOPSIS_BYTES = 8_192
"""Of a large document's beginning that is shown as it is."""

OUTLINE_BYTES = 2_048
"""Headings listed below that beginning; the last line says how many more there are."""

CONVERSION_S = 60
"""How long a document may take to become text; a converter that hangs is stopped."""

CONVERSION_MEMORY_BYTES = 1_073_741_824
"""Memory of the process that makes text of a document, where the system can bound it."""

CONVERSION_OPEN_FILES_MAX = 64
"""Files that a converter has open at once: its input, its output and the libraries it loads."""

CONVERSION_OUTPUT_BYTES_MAX = 10_000
"""What a converter may print, which is how it went; the text goes to a file."""

CONVERTED_BYTES_MAX = 50 * 1024 * 1024
"""Text that one document may become: as much as a document may have."""

PDF_PAGES_MAX = 10_000
"""More pages than any book."""

ARCHIVE_ENTRIES_MAX = 10_000
"""Files inside of a document that is an archive, such as DOCX."""

ARCHIVE_BYTES_MAX = 256 * 1024 * 1024
"""All files of such an archive together, unpacked; more is a bomb."""

ARCHIVE_RATIO_MAX = 200
"""How many times its size an archive may unpack to, once it is past a few megabytes."""
