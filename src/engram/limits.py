"""Every bound of Engram, each with its unit and its reason; `engram limits` prints them."""

from __future__ import annotations

QUERY_BYTES_MAX = 100_000
"""A pasted log is still a query; a whole book is a document."""

MESSAGE_BYTES_MAX = 10_000_000
"""Larger than any tool output seen in agent transcripts."""

MESSAGES_PER_CALL_MAX = 200
"""Keeps an append one short transaction."""

CALL_BYTES_MAX = 32_000_000
"""Content of one call, which is held in memory while the request is parsed."""

BODY_BYTES_MAX = 100_000_000
"""Body of a request that appends messages, stores a batch or carries a document as text. JSON
escapes take up to three bytes per byte of text (`\\u00e9` for two), so a full call still fits;
control characters take six, but no real text consists mostly of them."""

CONTROL_BODY_BYTES_MAX = 1_000_000
"""Body of every other request, searches included: the longest query fits even when fully
escaped."""

MEMORY_BODY_BYTES_MAX = 2_000_000
"""Body of a request with one memory: three bytes of JSON per byte of content, and its tags."""

NOTES_BODY_BYTES_MAX = 20_000_000
"""Body of a batch of notes: 100 notes of 2,000 characters with 50 tags each, fully escaped."""

UPLOAD_BODY_BYTES_MAX = 26_000_000
"""Body of an MCP call that carries one part of an upload, as escaped text or as base64."""

JSON_DEPTH_MAX = 64
"""Nesting depth of a request: the deepest metadata inside its envelope, with room to spare."""

JSON_VALUES_MAX = 20_000
"""JSON values in a request: 200 messages with 100 values each, metadata included. Building and
rejecting a value costs 200 bytes and up to 2 µs, so a full request costs 4 MB and 40 ms."""

JSON_VALUES_INLINE_MAX = 1_000
"""A request with more JSON values is parsed off the event loop; this many take 1 to 2 ms."""

JSON_INLINE_BYTES_MAX = 256 * 1024
"""Larger JSON is parsed off the event loop, however few values it has."""

JSON_LONG_STRING_BYTES = 4_096
"""Longer strings in a request are decoded separately, in slices."""

JSON_STRUCTURE_BYTES_MAX = 16_000_000
"""What is left of a request without its long strings: 200 messages with full metadata. The parser
reads this part in one uninterruptible call."""

BODIES_BYTES_MAX = 2 * BODY_BYTES_MAX
"""Large request bodies buffered by one process, complete or not. One organisation may use half of
it, which is one body of the maximum size."""

BODIES_WORK_BYTES_MAX = 12 * CALL_BYTES_MAX
"""Memory reserved for large requests being processed: a byte of text takes up to 12 bytes while it
is decoded, analysed and stored (4 of them for a wide character). So one full call at a time."""

SMALL_BODIES_BYTES_MAX = 32_000_000
"""Buffer for bodies up to `CONTROL_BODY_BYTES_MAX`, separate so that they never wait for a large
one."""

SMALL_BODIES_WORK_BYTES_MAX = 64_000_000
"""Memory reserved for small requests being processed."""

BODY_WAIT_S = 20
"""How long a large request waits for memory before the client is told to retry."""

BODY_UNRESERVED_BYTES_MAX = 65_536
"""Bodies up to this size need no reservation: the socket buffers of a connection hold as much."""

PARSERS_MAX = 2
"""Threads that parse large requests; more would starve the event loop."""

SSE_CALL_S = 120
"""How long memory stays reserved for a large message received over SSE while its call runs."""

LINES_BYTES_WAITING_MAX = 1_000_000
"""Read-ahead buffer for lines of standard input; a longer line is buffered alone."""

LINES_WAITING_MAX = 64
"""Lines of standard input read ahead before the client has to wait."""

STDIO_REQUESTS_MAX = 128
"""Concurrent requests of a stdio client; beyond that no further line is read."""

STDIO_DRAIN_S = 30
"""How long pending requests may still be answered after a stdio client has closed its end."""

STDIO_FLUSH_S = 5
"""How long process exit waits for a stdio client that does not read."""

ENGINE_IDLE_S = 300
"""How long the local engine stays after its last client: between two prompts, not over night."""

ENGINE_START_S = 60
"""How long a client waits for an engine that starts, on a machine with other things to do; then it
opens the store itself, which takes as long."""

ENGINE_ANSWER_S = 20
"""How long a running engine may take to introduce itself before it is taken for dead."""

ENGINE_ATTEMPTS_MAX = 5
"""Engines that may end with the same call unanswered: it may be the call that ends them."""

ENGINE_STOP_S = 15
"""How long an engine may finish its calls when it is told to stop."""

ENGINE_HELLO_S = 30
"""How long a new connection may take to say what it wants."""

CLIENTS_NOTED_MAX = 1_000
"""Names and versions of clients that a server remembers, to log each of them once."""

ENGINE_COMMANDS_MAX = 8
"""Commands that the engine runs at once, each in a thread; more wait for their turn."""

ENGINE_LOG_BYTES_MAX = 1_000_000
"""A longer log of the engine is emptied at its next start."""

SOCKET_PATH_BYTES_MAX = 103
"""What every system's address of a Unix socket holds; macOS is the strictest."""

RELAY_REQUESTS_MAX = 32
"""Concurrent requests relayed by `engram mcp`; beyond that no further line is read."""

RELAY_CONNECT_S = 10
"""Connect timeout of the relay; a server that takes longer is considered down."""

RELAY_READ_S = 300
"""Timeout of a relayed request; a large import takes longest."""

RELAY_WRITE_S = 60
"""How long a server may stall while it reads a relayed request."""

UNREAD_BYTES_MAX = BODY_BYTES_MAX
"""Bytes discarded of a rejected body so that the connection can be reused."""

HEADER_BYTES_MAX = 65_536
"""Request line and headers together; credentials, proxy cookies and trace headers fit many times
over."""

HEADERS_MAX = 100
"""Header fields of a request, including trailers; browsers behind two proxies send 40."""

FRAMING_PER_BYTE_MAX = 8
"""Framing bytes per body byte in chunked encoding; one-byte chunks have five."""

HEADER_S = 10
"""How long a client may take to send the headers of a request."""

TRANSFER_WINDOW_S = 20
"""How long a transfer may stay below the minimum rate before its connection is closed."""

TRANSFER_BYTES_PER_S_MIN = 1_000
"""Minimum rate at which a client sends a body or reads a response: a tenth of a bad modem's."""

ANSWER_PIECE_BYTES = 65_536
"""Of a longer answer so much is handed to the socket at a time; the next piece waits until the client
has read most of it."""

ANSWERS_BYTES_MAX = 128_000_000
"""Longer answers that a server process holds for clients that have not read them; beyond it the
slowest readers of the organisation with the most are cut off."""

ANSWER_GRACE_S = 2
"""How long a client may take for its answer before it can be cut off for others; most take
milliseconds."""

KEEP_ALIVE_S = 75
"""How long an idle connection stays open: longer than agents usually pause between requests."""

SHUTDOWN_S = 10
"""How long running requests may take when the server stops; open streams are cut off after that."""

STOP_S = 5
"""How long the rest may take when the server stops: work in the background ends where it yields next,
and accepted writes are committed. After that the process exits; leases give the work to the next."""

LINGER_S = 10
"""How long input is drained after the response, so that a client still sending can read it."""

SWEEP_S = 0.5
"""How often connections are checked for clients that are too slow."""

CONNECTIONS_MAX = 1_024
"""Open connections of a server process, unless `ENGRAM_CONNECTIONS_MAX` is set; each may buffer 64
KB of incomplete headers."""

CONNECTIONS_PER_ADDRESS_MAX = 256
"""Open connections per IPv4 address or IPv6 /64 network, unless
`ENGRAM_CONNECTIONS_PER_ADDRESS_MAX` is set."""

CONNECTION_BACKLOG = 2_048
"""Connections that the kernel queues until the server accepts them."""

PIPELINED_REQUESTS_MAX = 16
"""Requests a client may pipeline before the first is answered."""

REQUESTS_AT_WORK_MAX = 128
"""Concurrent requests of one organisation while no other is active: with fewer, its appends would
wait for its searches."""

REQUESTS_AT_WORK_SHARED_MAX = 2
"""Concurrent requests of one organisation while others are active: each further one delays
everybody's searches by one search."""

SEARCHES_TOGETHER = 1
"""Searches of one organisation between two groups of its appends, while both come. With two there are a fifth
more searches beside sixteen searchers, but four writers keep a quarter of their rate, not a third.
"""

APPENDS_TOGETHER = 3
"""Appends of one organisation between two of its searches, while several wait; they share a commit. A search waits
for all of them.
"""

APPENDS_BESIDE_ONE = 2
"""The same while one search waits: it is answered sooner, and writers keep a third of their rate."""

ALTERNATION_GROUP_S = 0.25
"""How long appends wait for a search of their organisation that is at work, and it for appends; what
takes longer goes on beside them."""

REQUESTS_WAITING_MAX = 256
"""Queued requests of one organisation; their bodies have not been read yet."""

REQUEST_WAIT_S = 30
"""How long a request stays queued before the client is told to retry later."""

LONG_REQUEST_S = 2
"""A request that runs this long is waiting for a model or a file, and gives up its slot to a
shorter one."""

NEIGHBOUR_S = 10
"""How long after its last request an organisation counts as active."""

RECEIVED_BYTES_PER_S_SHARED = 16_000_000
"""Rate at which one organisation's bodies are read while others are active: reading at the speed of
a fast network would take up the whole event loop."""

REFUSALS_PER_S_SHARED = 50
"""Rejections sent to one address per second while organisations are active; further ones are
delayed."""

REFUSAL_DELAY_S_MAX = 1.0
"""The longest delay of such a rejection."""

REFUSED_ADDRESSES_MAX = 1_000
"""Addresses whose rejections are counted; the least recently rejected is evicted."""

WASTE_BYTES_PER_S = 16_000_000
"""Rate at which the rest of a rejected request is read and discarded."""

TURNS_TICK_S = 0.1
"""How often queued requests are rescheduled when no other event does it."""

OPEN_FILES_BESIDE_CONNECTIONS = 2_048
"""File descriptors that a server process reserves for databases, models and logs; where the limit of
the process is lower, half of it."""

OPEN_FILES_MIN = 64
"""File descriptors without which a server does not start: below, requests would mostly wait for each
other."""

OPEN_FILES_RESERVED = 32
"""File descriptors for everything but clients and store files: the interpreter, models, logs,
converters, and the writer of the control file."""

FILES_PER_CONNECTION = 3
"""File descriptors of a connection to a store file: the file, its log, its shared memory."""

FILE_CONNECTIONS_MIN = 4
"""Connections to store files however low the limit is: what one request needs, and background work."""

FILE_RETRY_S = 0.05
"""How often the store looks for a free file descriptor while there is none."""

METADATA_BYTES_MAX = 65_536
"""Metadata describes; content belongs in messages."""

STORED_ROW_BYTES = 128
"""Fixed overhead charged for each stored row, about what the row, its keys and its index entries
take, so that a million empty messages are not free. Stored counters are computed with it: changing
the value requires a migration that recounts."""

USAGE_DAYS_MAX = 400
"""Thirteen months, so that a month can be compared with the same month a year before; older days
are deleted."""

METADATA_DEPTH_MAX = 32
"""Deeper nesting is a mistake or an attack on parsers."""

TAGS_MAX = 50
"""Tags are filters, and each is a row of an index."""

TAG_CHARACTERS_MAX = 256
"""A tag is a word or a short path."""

TITLE_BYTES_MAX = 1_024
"""A title fits on one line."""

NAME_CHARACTERS_MAX = 256
"""Names of speakers, tools, agents and keys."""

PROJECT_CHARACTERS_MAX = 128
"""The same bound as in engram-go."""

GIT_CONFIG_BYTES_MAX = 1_000_000
"""The part of a repository's configuration in which its remotes are looked for."""

IDEMPOTENCY_KEY_CHARACTERS_MAX = 256
"""Long enough for a UUID, a hash or a path."""

SESSION_ID_CHARACTERS_MAX = 1_024
"""A program's id of a session or message: mostly a UUID, sometimes a path."""

CAPTURE_ATTEMPTS_MAX = 8
"""How often a capture looks again for what is left when others store the same messages meanwhile."""

IDEMPOTENCY_HOURS = 24
"""How long a retried append returns the first response."""

CONVERSATION_REFERENCE_CHARACTERS = 5
"""Of the 21 random characters of its id, so many name a conversation where it is read: among a million, one
reference in a thousand is ambiguous, and is refused. A character more costs a token for each source."""

SEARCH_RESULTS_MAX = 200
"""Messages and memories of an answer; more are a listing, not a search."""

TOKEN_BUDGET_MIN = 100
"""No message fits into fewer tokens."""

TOKEN_BUDGET_MAX = 100_000
"""More than any client has left of its context window."""

MESSAGE_PAGE_MAX = 500
"""Messages returned by one `get_conversation`."""

WHOLE_NUMBER_MAX = 2**53
"""Clients that parse JSON numbers as doubles lose precision above this."""

CONVERSATION_PAGE_MAX = 100
"""Conversations returned by one `list_conversations`."""

KEYS_PER_ORGANIZATION_MAX = 1_000
"""Keys are listed in one response, without pages."""

FAILED_LOGINS_PER_ADDRESS_MAX = 20
"""Wrong credentials looked up per address and minute; people mistype less often."""

FAILED_LOGINS_MAX = 1_000
"""Wrong credentials looked up per minute from all addresses, so that many addresses together cannot
load the database either."""

FAILED_LOGIN_ADDRESSES_MAX = 10_000
"""Addresses whose failed logins are counted, about 2 MB; the least recent is evicted."""

KNOWN_CREDENTIALS_MAX = 10_000
"""Credentials cached by each process after a successful login, which are never throttled."""

OPERATOR_FILE_BYTES_MAX = 65_536
"""Size of the operator token file: room for several hundred operators."""

AUDIT_PENDING_MAX = 10_000
"""Distinct events aggregated for the next minute's audit rows; further ones are counted as lost."""

AUDIT_QUEUE_MAX = 10_000
"""Audit rows queued for the audit log file or syslog; further ones are counted as lost."""

KEY_OVERLAP_S_MAX = 30 * 86_400
"""How long a rotated key may remain valid beside its successor; longer would be two keys."""

KEY_RESTORE_S_MAX = 600
"""How long a revoked key can be brought back: whoever revoked the wrong one notices within minutes."""

KEY_ADDRESSES_MAX = 64
"""Client addresses remembered for each key; one that was evicted counts as new again."""

NEW_ADDRESSES_SHOWN = 10
"""Addresses listed in one audit row, which also has their count."""

AUDIT_PAGE_MAX = 500
"""Audit rows returned in one response."""

CONVERSATION_MESSAGES_MAX = 2**24 - 1
"""Sequence numbers take the low 24 bits of a 64-bit row id; the conversation's number is above."""

MESSAGES_REMOVED_AT_ONCE = 256
"""Of a conversation in one transaction: to remove their words takes as long as to add them."""

ERASED_AT_ONCE = 100
"""Conversations hidden, memories removed or messages blanked in one transaction of an erasure."""

ERASURE_SCANNED_ROWS = 5_000
"""Rows compared with a subject in one read; an erasure looks at every message."""

ERASURE_PAGE_MAX = 100
"""Receipts of erasures returned in one response."""

SUBJECT_CHARACTERS_MAX = 1_024
"""Room for a field's name and the longest name or label."""

REENCODED_AT_ONCE = 500
"""Texts compressed anew in one transaction, when a dictionary that may quote what was erased is dropped."""

ERASURE_EXPORTS_LISTED = 100
"""Exports that a receipt names as holding what was erased; it counts the others."""

ERASURE_WAIT_S = 20.0
"""How long a request waits for an erasure to finish; what takes longer is done in the background."""

REWRITE_S = 60.0
"""How long an erasure waits for a moment in which nobody holds a file; then it tries again later."""

MERGED_PAGES = 500
"""Pages of a word index merged in one transaction: some tens of milliseconds."""

RETITLED_MESSAGES_MAX = MESSAGES_PER_CALL_MAX
"""Documents indexed again when their conversation gets another title: as much work as an append."""

EDIT_ATTEMPTS_MAX = 5
"""How often an edit of a title starts over because documents were appended meanwhile."""

WINDOW_MESSAGES = 5
"""A window gives a short message the context in which it was said."""

WINDOW_STRIDE = 3
"""Adjacent windows overlap by two messages, so any three consecutive messages share a window."""

WORD_PASSAGE_WORDS = 300
"""Longer messages are scored by a passage of so many words: the length of a chunk of a document."""

COMPRESS_BYTES_MIN = 128
"""Shorter content rarely compresses."""

TIME_CHARACTERS_MAX = 1_000
"""Characters at each end of a query in which relative time ("last week") is looked for: what lies between is a
pasted text, and the pattern of five languages would hold the interpreter, and with it every request, for half a
second in 100 KB."""

QUERY_TERMS_MAX = 128
"""Distinct terms of a query that are searched; the response says if there were more."""

LEG_CANDIDATES = 200
"""Candidates from each leg of a search; more did not improve any quality figure."""

LEG_CANDIDATES_IN_TIME = 600
"""The same where the query speaks of a time: what was said then may match it weakly. With 200, two of 26
such questions lost what answers them; 1,600 found no more."""

BACKFILL_BATCH_MAX = 1_000
"""Keeps a batch one short transaction."""

OPEN_ORGANIZATIONS_MAX = 64
"""Organisation files kept open; each costs a few file descriptors and page caches."""

PING_S = 2
"""Seconds that `memory_status_ping` waits for the store: whoever asks wants to know now."""

READY_S = 5
"""How long `/readyz` waits for the store before it says that the server is not ready."""

HOME_PING_S = 2
"""How long a home may take to answer before `/readyz` and `engram homes list` call it away."""

HOMES_MAX = 100
"""Databases beside the control database. A process may open `ENGRAM_DATABASE_CONNECTIONS` connections to each."""

HOME_NAME_CHARACTERS_MAX = 63
"""Characters of a home's name: as long as an identifier of PostgreSQL may be."""

READY_WRITE_S = 5
"""How long a successful write counts as proof that the store can be written: anybody may ask
`/readyz`, and a commit costs a sync of the disk."""

FREE_BYTES_MIN = 1_048_576
"""Free space below which the disk counts as full: less than one long message takes."""

DUE_S = 5.0
"""How often a process asks which background work is due: one query to each home, whatever is stored. Its own
work it does at once."""

DUE_CLAIMED_MAX = 32
"""Pieces of due work that a process claims at once, and that wait for their turn in it: few, so that others get some."""

STORE_BUSY_S = 30
"""How long to wait for a lock held by another writer before giving up."""

BACKUP_LOCK_S = 2.0
"""How long a backup may take to lock all files of a store at once, while writers wait: far less than they
wait for a lock. Then it lets them go on, and tries again."""

BACKUP_LOCK_ATTEMPTS = 30
"""How often a backup tries to lock all files at once before it reports that the store is busy."""

BACKUP_COPY_BYTES = 1_048_576
"""Read at once from a file that is compressed, encrypted or hashed for a backup."""

BACKUP_MANIFEST_BYTES_MAX = 67_108_864
"""Size of a manifest that is read: some 500 bytes for each of 100,000 organisations."""

STATEMENT_S = 60
"""Statement timeout in PostgreSQL, unless a setting overrides it: twice the lock timeout, so that a
wait for a lock fails with its own error."""

TRANSACTION_IDLE_S = 300
"""How long a PostgreSQL transaction may sit idle; its process may have been cut off."""

STORE_DOUBT_S = 10
"""How long a write whose commit was cut off by a lost connection tries to find out if it was
stored: about as long as a standby takes to be promoted."""

WRITES_PER_COMMIT_MAX = 256
"""Writes grouped into one commit; more would keep the first one waiting."""

THREAD_SWITCH_S = 0.0001
"""The interpreter's switch interval in a server. With Python's default of 5 ms a search beside one
busy thread takes 320 ms, because it releases the GIL some sixty times."""

READER_THREADS_MAX = 8
"""Concurrent reads of one process."""

DATABASE_CONNECTIONS = 18
"""Connections of one process to a shared database, unless a setting says otherwise: 8 to read, 8 to
write in as many organisations, and `DATABASE_CONNECTIONS_APART`."""

DATABASE_CONNECTIONS_APART = 2
"""Of these, one is for notifications and one for building an index."""

IDLE_READERS_MAX = 4
"""Idle read connections kept open per file; each may hold a page cache."""

RESOURCES_PAGE = 50
"""Conversations on one page of the MCP resource listing, which people scan by eye."""

RESOURCE_TOKENS_MAX = 20_000
"""An MCP resource goes into a context window as a whole; clients refuse more than 25,000."""

ESCAPED_JOINERS_CHARACTERS_MAX = 1 << 17
"""In longer texts every joiner is escaped: finding those that belong to an emoji would hold the GIL
too long."""

ESCAPES_CACHED_MAX = 4_096
"""Code points cached for each escape notation: more than any one script needs."""

SSE_SESSIONS_MAX = 1_000
"""Open legacy SSE connections of one process; each holds a task and a socket."""

SSE_SESSIONS_PER_ORGANIZATION_MAX = 128
"""SSE connections of one organisation, so that it takes eight of them to lock others out."""

SSE_SESSIONS_PER_KEY_MAX = 32
"""SSE connections of one key, so that a program that leaks connections does not lock out other
keys."""

SSE_CHECK_S = 1
"""How often an open SSE session checks that its key is still valid."""

PAGE_CHARACTERS_MAX = 32_000_000
"""Text held in memory for one page of messages; a page cut short says where to continue."""

INLINE_CHARACTERS_MAX = 8_000
"""Text processed on the event loop: about 1 ms, or 15 ms if no word is cached; longer texts go to a
thread."""

LONG_TEXT_CHARACTERS = 400_000
"""Longer texts are processed one at a time in each process; shorter ones take up to 0.1 s."""

MESSAGE_CHARACTERS_KEPT = 2_000_000
"""Size of the cache of recently found messages, for each open organisation."""

VECTOR_DIMENSIONS_MAX = 8_192
"""More than any embedder in use; a wider response of an embedding service is an error."""

QUERY_VECTORS_KEPT = 1_000
"""Query vectors cached by each process: about 2 MB, and 5 MB more with late interaction."""

QUERY_CHARACTERS_KEPT = 2_000
"""Longer queries are rarely repeated, so their vectors are not cached."""

CACHED_WORDS_MAX = 40_000
"""Words whose tokens are cached by each process, some 8 MB; nine in ten words of a text are among
fewer."""

CACHED_WORD_CHARACTERS_MAX = 32
"""Longer words hardly ever repeat, so their tokens are not cached."""

MODEL_RETRY_S = 5
"""How long to wait after a model failed to load before its files are read again."""

REMOTE_TOKENS_MAX = 512
"""Every embedding service can read this much; the tokenizer of a service is not known here."""

REMOTE_BATCH_TEXTS_MAX = 64
"""Texts in one request to an embedding service; common servers reject more."""

REMOTE_BATCH_BYTES_MAX = 200_000
"""Text in one request to an embedding service, so that a request takes seconds at most."""

REMOTE_RESPONSE_BYTES_MAX = 64_000_000
"""More than a full batch of the widest vectors takes in JSON."""

REMOTE_CONNECT_S = 3
"""Connect timeout of embedding services; one that takes longer is considered down."""

REMOTE_INDEXING_S = 60
"""Timeout of a batch sent to an embedding service; a loaded CPU server needs it."""

REMOTE_QUERY_S = 5
"""How long a search waits for its query vector before it falls back to words alone."""

REMOTE_ATTEMPTS_MAX = 4
"""Attempts for one batch before its job is requeued."""

REMOTE_BACKOFF_S_MAX = 30
"""Longest wait between two attempts, even if the service asks for a longer one."""

BREAKER_FAILURES_MAX = 5
"""Consecutive failures that open the circuit breaker of an embedding service."""

BREAKER_OPEN_S = 10
"""How long the circuit breaker stays open at first; each failed probe doubles it."""

BREAKER_OPEN_S_MAX = 300
"""Longest time between two probes of a failed service, so that its recovery is found soon."""

MODEL_CONNECT_S = 5
"""Connect timeout of a model hub, after which the next source is tried."""

MODEL_READ_S = 30
"""A download that stalls for this long is resumed on a new connection."""

MODEL_ATTEMPTS_MAX = 5
"""How often a broken download is resumed."""

MODEL_PACKAGE_S = 900
"""How long the package index may take for a package of some 30 MB."""

MODEL_LOCK_S = 1_800
"""How long to wait for another process that is downloading the same model."""

VECTOR_BYTES_MAX = 1_000_000_000
"""Memory for vectors in each process: a million messages in both tiers, or many small
organisations."""

INSTANT_PASSAGE_TOKENS = 512
"""A static model reads texts of any length, but the mean vector of a whole book is meaningless."""

INSTANT_PASSAGES_MAX = 64
"""Passages of a message that get instant vectors; the rest of a longer one waits for deep
vectors."""

INDEX_BATCH_MESSAGES = 64
"""Messages leased for deep vectors at once: few, so that other processes find work too."""

INDEX_BATCH_CHARACTERS = 200_000
"""Text held in memory for one such batch, unless a single message is longer."""

INDEX_DRAIN_S = 1.0
"""How long a search waits for vectors of new messages where there are no instant ones."""

PASSAGE_TOKENS_MAX = 480
"""Below the window of common models, which must also hold a prefix and special tokens."""

SENTENCE_CHARACTERS_MIN = 20
"""A sentence of a document that is shorter than three or four words shares its vector with the next
one."""

EXCERPT_PASSAGES_MAX = 4_000
"""Passages of long texts that are compared to find the matching parts: 1.6 MB of vectors."""

EXCERPT_SCANNED_CHARACTERS_MAX = 200_000
"""Of longer texts only the surroundings of the nearest passages and of exact words are scanned: some 20 ms."""

SENTENCE_TOKENS_MAX = 100
"""Longer sentences, by a rough count of tokens, are split at a boundary if there is one."""

SENTENCES_FROM_TOKENS = 60
"""A shorter message of a conversation says one thing, and has one vector."""

SENTENCES_UPTO_TOKENS = 200
"""A longer message, mostly an assistant's answer, would have more vectors than it is worth."""

TOKEN_VECTOR_BYTES_MAX = 1_500
"""Token vectors of a message: 46 tokens, more than nine in ten messages of chats have without words such
as `the`. Of a longer one similar neighbours share a vector."""

LATE_CANDIDATES = 120
"""The best candidates of a search, whose tokens are compared with the query's; with 60, evidence is lost."""

LATE_QUERY_TOKENS_MAX = 32
"""Tokens of a query that are compared, the rarest of a longer one: each costs a pass over all tokens of the
candidates."""

MESSAGE_SENTENCE_TOKENS_MIN = 10
"""About eight words; a shorter sentence of a message shares its vector with the next one."""

POSTINGS_KEPT = 100_000
"""Entries in the LRU cache of posting lists, for each open organisation; about 1.6 MB."""

TAIL_WORDS_MIN = 6_144
"""Words in the tail of a word index in blocks from which it is merged; about 200 messages of a chat.

A search looks through all of them, and a merge writes most pages of a small index again.
"""

TAIL_WORDS_MAX = 65_536
"""The same in a big index; a search looks through them in about a millisecond."""

TAIL_SHARE = 64
"""Between the two, a tail is merged when it has one in so many words of the index."""

LENGTH_SLOTS_KEPT = 4_194_304
"""Array elements for the lengths of messages, and of windows, of an open organisation: 34 and 17 MB.

A conversation has a power of two of them: about three for two messages.
"""

PACKED_POSTINGS_MIN = 512
"""Postings from which a word of a file has a packed list: FTS5 takes 0.1 ms to read them, and a list 0.01 ms."""

PACKED_POSTINGS_SHARE = 512
"""A word of a big file has a list if one in so many messages contains it: a merge writes a block of most lists."""

PACKED_BLOCK_POSTINGS = 8_192
"""In a block of a packed list: about 12 kB, packed in 0.14 ms and unpacked in 0.05."""

PACKED_WORDS_MAX = 65_535
"""Packed lists of a file: the log has two bytes for the number of one."""

PACKED_LOG_MIN = 8_192
"""Messages in the log of packed lists from which it is merged into them; a smaller file has no lists.

A merge writes the last block of most lists again, and a search looks through the whole log.
"""

PACKED_LOG_MAX = 32_768
"""The same in a big file; a search looks through them in about half a millisecond."""

PACKED_LOG_SHARE = 8
"""Between the two, a log is merged when it has one in so many messages."""

PACKED_LOG_ROW = 64
"""Messages of single appends in one row of the log: the row is written again with each, and fits a page."""

PACKED_STEP_WORDS = 64
"""Lists that a merge extends in one transaction. Writers wait for it, and beside many searches it takes ten times
as long as alone.
"""

PACKED_STEP_POSTINGS = 65_536
"""Postings of FTS5 that are packed in one transaction: it takes about 13 ms, alone."""

ROW_FACTS_KEPT = 1_000_000
"""Messages of an open organisation whose size, time and kind are cached, about 32 MB."""

REEMBED_REFUSALS_MAX = 1_000
"""Messages an embedder may reject before re-embedding stops: by then the embedder is at fault."""

NOTE_CHARACTERS_MIN = 10
"""Shorter notes tell a later reader nothing."""

NOTE_CHARACTERS_MAX = 2_000
"""A note is one fact; a longer text is a memory or a document."""

MEMORY_BYTES_MAX = 500_000
"""The same bound as in engram-go; a longer text is a document."""

MEMORIES_PER_CALL_MAX = 100
"""Keeps a batch one short transaction."""

MEMORY_PAGE_MAX = 500
"""Memories returned by one listing."""

NOTE_PAGE_MAX = 50
"""Notes returned by one `list_entries`."""

RECALL_RESULTS_MAX = 500
"""The most that engram-go's clients may ask for."""

CONTEXT_RESULTS_MAX = 10
"""Entries of one `fetch_context`: more would drown the question they are meant for."""

CONTEXT_QUERY_CHARACTERS_MIN = 3
"""Shorter queries say nothing about the work that needs context."""

CONTEXT_MISSES = 3
"""Handles of the nearest entries below the cut, if nothing is above it: enough to tell whether a look is worth it."""

OVERVIEW_ROWS = 20
"""Memories read from the index of each group for an overview; they are ordered by importance and time, and the
best become entries."""

OVERVIEW_LATEST = 200
"""The newest memories that tell which projects are current."""

OVERVIEW_SCANNED = 2_000
"""The newest rows of a group that are examined for those that match the filters: a few milliseconds."""

OVERVIEW_ENTRY_CHARACTERS = 600
"""Of a longer text, an overview shows the beginning: one text must not take the room of all others."""

OVERVIEW_PROJECTS = 5
"""Current projects that an overview names."""

CONTEXT_KEPT_S = 60
"""How long a fetched context stays cached while nothing is written."""

CONTEXTS_KEPT = 256
"""Contexts cached by each process, usually a few kilobytes each."""

CONTEXT_CHARACTERS_KEPT = 40_000
"""Longer contexts are not cached, which keeps the cache below about 10 MB."""

EPISODE_IDLE_S = 7_200
"""Pause after which what a connection stores belongs to another automatic episode: as long as engram-go
keeps a session that is not connected."""

EPISODE_MARGIN = 50
"""Extra memories ranked beyond those asked for, so that those of the caller's episode can move ahead."""

SUPERSEDED_MARGIN = 20
"""Extra memories ranked beyond those asked for, so that a superseding one can move ahead of the one
it supersedes."""

IMPORTANCE_MAX = 4
"""Importance ranges from 0, critical, to 4, trivial."""

SOURCE_CHARACTERS_MAX = 256
"""A source is a name, a path or an address."""

REASON_BYTES_MAX = 2_048
"""Why a memory was forgotten, in a sentence or two."""

SUMMARY_BYTES_MAX = 8_192
"""A longer summary would be a memory of its own."""

RELATION_HOPS_MAX = 2
"""Neighbours of neighbours; further away everything is related."""

RELATED_MAX = 50
"""Related memories loaded with one recalled memory."""

FEEDBACK_MEMORIES_MAX = 100
"""Memories rated by one call of `memory_feedback`."""

FEEDBACK_KEPT = 100
"""Most recent ratings kept for one memory; older ones are dropped because usefulness changes."""

MEMORY_CHUNK_BYTES = 8_192
"""A memory up to this size is one chunk; a longer one is split."""

PROJECTS_PER_CALL_MAX = 100
"""Projects one recall may name; to search more, search all of them."""

CONNECTED_MAX = 10
"""Related memories shown with one recalled memory; the response counts the rest."""

CHUNKS_PER_CALL_MAX = 100
"""Chunks one call of `memory_fetch` may name."""

MEMORY_CHUNK_TOKENS = 512
"""Chunks of a longer memory: a few paragraphs each."""

LANGUAGE_S = 60
"""Timeout of an answer from a language model, all attempts together."""

LANGUAGE_ATTEMPTS_MAX = 3
"""Attempts for one answer from a language model; the caller is waiting."""

LANGUAGE_RESPONSE_BYTES_MAX = 4_000_000
"""Far more than any answer Engram asks for."""

LANGUAGE_TEXT_TOKENS_MAX = 25_000
"""Text given to a language model to summarise: more than most models read well at once."""

SUMMARY_CHARACTERS = 400
"""Target length of a summary; a single sentence may exceed it."""

CONSOLIDATE_MEMORIES_MAX = 100_000
"""Memories compared in one consolidation: their MinHash signatures are held in memory, about 1.5 KB
each."""

CONSOLIDATE_MERGES_MAX = 1_000
"""Merges in one consolidation; the response lists every one."""

KEPT_APART_SHOWN_MAX = 100
"""Near-duplicates that a consolidation left alone and names; it counts all of them."""

IMPORT_FILES_MAX = 10_000
"""Foreign files read by one `memory_ingest`; an Engram export may have any number."""

PATH_PARTS_MAX = 32
"""Components of a path given by a caller: removing the tree keeps a directory open for each
level."""

EXPORT_FILE_BYTES_MAX = 256_000_000
"""Size of one file of an export when it is read back: a memory with all its versions."""

EPISODE_BYTES_MAX = 8_192
"""The description or summary of an episode, in a few paragraphs."""

EPISODE_PAGE_MAX = 100
"""Episodes returned by one listing."""

REEMBED_S = 45
"""How long one `memory_migrate_embedder` call works before it returns the number of remaining
texts."""

WHOLE_DOCUMENT_BYTES_MAX = 500_000
"""A document up to this size is the whole content of its memory; a larger one is represented by a
synopsis."""

DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
"""Upper end of tier 1, unless `ENGRAM_MAX_DOCUMENT_BYTES` is set."""

RAW_DOCUMENT_BYTES_MAX = 50 * 1024 * 1024
"""The largest document, unless `ENGRAM_RAW_DOCUMENT_MAX_BYTES` is set."""

CONFIGURED_DOCUMENT_BYTES_MAX = 1_000_000_000
"""The most either setting may be raised to: a document must be uploaded within one connection's
lifetime."""

DOCUMENT_PIECE_BYTES = 131_072
"""Bodies are stored in pieces of this size; each is compressed, checksummed and read
independently."""

DOCUMENT_PIECES_READ = 8
"""Pieces read in one transaction: 1 MB of memory for an eighth of the thread switches."""

DOCUMENT_PIECES_KEPT = 4
"""Pieces cached for each open organisation: adjacent chunks lie in the same one."""

DOCUMENT_STEP_BYTES = 262_144
"""Text of a document indexed in one transaction, so that other writes can run in between."""

DOCUMENT_PAGE_MAX = 100
"""Documents returned by one listing."""

RANGE_DIGITS_MAX = 20
"""Digits of a position in a `Range` header; no document is that long, and parsing more costs
time."""

UPLOAD_MINUTES = 30
"""How long an upload in parts may be idle before the parts received are removed."""

UPLOADS_MAX = 500
"""Concurrent uploads of one organisation."""

UPLOAD_PART_BYTES_MAX = 8 * 1024 * 1024
"""One part of an upload, which is held in memory."""

REGEX_CHARACTERS_MAX = 1_024
"""A longer pattern is a program, not a query."""

REGEX_STEPS_MAX = 10_000
"""Instructions of a compiled pattern; each may be tried at every byte, so a larger program could
take minutes."""

SUBSTRINGS_MAX = 100
"""Substrings that one query of a document may search for."""

SUBSTRING_CHARACTERS_MAX = 1_024
"""Length of each of these substrings, the same as of a pattern."""

QUERY_MATCHES_MAX = 10_000
"""Matches examined by one document query; more would not fit into a response."""

MATCHES_SHOWN_MAX = 20
"""Matches listed with each span of a response, which also has their count."""

QUERY_WINDOW_CHARACTERS_MAX = 100_000
"""Text around each match of a document query."""

QUERY_DOCUMENTS_MAX = 20
"""Documents that one query may search."""

REGEX_S = 5
"""How long a pattern may run over documents before the spans found so far are returned."""

DOCUMENT_CHUNK_CHARACTERS = 2_000
"""About what a model reads at once, and what a reader takes in at a glance."""

HEADING_CHARACTERS_MAX = 200
"""A heading shown with a chunk or in a synopsis; a longer one is truncated."""

SHORT_SECTIONS_MAX = 2_000
"""Sections below 200 characters with a chunk of their own; further ones are merged, or every line
could be a chunk."""

SYNOPSIS_BYTES = 8_192
"""The beginning of a large document that its synopsis quotes verbatim."""

OUTLINE_BYTES = 2_048
"""Headings listed below that beginning; the last line counts the rest."""

LEASE_S_MAX = 600
"""The longest lease on background work. One that ends later was taken by a clock that is ahead, and counts
as expired: a process that died two days ahead holds nothing up for two days."""

TRASH_DAYS = 30
"""How long what was deleted with `undo` can be restored, unless `ENGRAM_TRASH_DAYS` is set; a month is enough
to miss something."""

TRASH_DAYS_MAX = 3_650
"""The longest that the trash can be set to keep: what is to stay for longer should not be deleted."""

RETENTION_DAYS_MAX = 36_500
"""The longest that a rule of retention keeps anything: a hundred years."""

RETENTION_RULES_MAX = 200
"""Rules of retention of an organisation: each is compared with everything old."""

RETENTION_STEP_MAX = 1_000
"""What rules of retention remove in one turn of background work, so that others have theirs."""

HOLDS_MAX = 200
"""Legal holds of an organisation: each is compared with everything that is deleted."""

TRASH_PAGE_MAX = 100
"""Entries of the trash in one page."""

SCRUB_BYTES_PER_S = 1_000_000
"""Read in the background to prove what is stored: a gigabyte in twenty minutes, and a hundredth of a disk."""

SCRUB_STEP_CHARACTERS = 256_000
"""Text read in one step: a few milliseconds, after which requests have their turn."""

SCRUB_DAYS = 7
"""From the end of one pass over an organisation to the beginning of the next."""

CONVERSION_S = 60
"""How long converting a document to text may take; a converter that hangs is killed."""

SANDBOX_PROBE_S = 30
"""How long importing the converters may take when the sandbox is probed."""

CONVERSION_MEMORY_BYTES = 1_073_741_824
"""Memory limit of the converter process, where the system can enforce one."""

CONVERSION_OPEN_FILES_MAX = 64
"""Files open at once in a converter: its input, its output and the libraries it loads."""

CONVERSION_OUTPUT_BYTES_MAX = 10_000
"""Standard output of a converter, which carries only its status; the text goes to a file."""

CONVERSION_MESSAGE_CHARACTERS_MAX = 600
"""How much of a converter's error message is stored; the converter may be compromised."""

CONVERTED_BYTES_MAX = 50 * 1024 * 1024
"""Text extracted from one document: as much as a document may have."""

PDF_PAGES_MAX = 10_000
"""More pages than any book."""

ARCHIVE_ENTRIES_MAX = 10_000
"""Files in a document that is an archive, such as DOCX."""

ARCHIVE_BYTES_MAX = 256 * 1024 * 1024
"""Total uncompressed size of such an archive; more is a zip bomb."""

ARCHIVE_RATIO_BYTES_MIN = 8 * 1024 * 1024
"""An archive that unpacks to less may have any compression ratio."""

ARCHIVE_RATIO_MAX = 200
"""Compression ratio of an archive that unpacks to more than a few megabytes."""

HOOK_INPUT_BYTES_MAX = 1_000_000
"""What a client sends to a hook: the prompt or the last answer at most, mostly a few kilobytes."""

HOOK_READ_S = 0.3
"""How long a hook waits for the payload, which clients write before they wait for the answer."""

HOOK_RECALL_S = 0.15
"""After this a hook is silent: people notice a pause of more than about 200 ms before every answer."""

HOOK_PROMPT_CHARACTERS_MAX = 8_000
"""The beginning of a prompt says what it is about; the rest is mostly pasted."""

HOOK_START_BYTES_MAX = 2_048
"""What a new session is told: more is skimmed, and is paid for in every later request."""

HOOK_PROMPT_BYTES_MAX = 1_536
"""What comes with a prompt: less would cut paths and numbers, more was of no use to agents."""

HOOK_START_PAUSE_S = 30
"""An engine that cannot start is not started again at every event."""

HOOK_SHOWN_S = 7_200
"""After this a text may come again: by then the agent has mostly lost sight of it."""

HOOK_TWICE_S = 5
"""Within this a session starts once: hooks that stand in two files run at the same time."""

HOOK_SHOWN_MAX = 500
"""Texts that a session is known to have seen."""

HOOK_SESSIONS_MAX = 1_000
"""Sessions whose view is kept, a file of a few kilobytes each."""

DELIVERIES_KEPT = 10_000
"""Rows of the log of what agents were given, some 300 bytes each: months of work."""

DELIVERIES_WAITING_MAX = 2_000
"""Answers of tools that wait up to a minute to be logged: 30 a second for all organisations."""

DELIVERY_CHARACTERS_MAX = 16_000_000
"""Of their texts, whose tokens are counted when they are logged."""

DELIVERY_QUERY_CHARACTERS_MAX = 300
"""Of a question that is logged: enough to recognise it."""

EXAMINATION_S = 20
"""Of an examination that somebody waits for; `engram doctor` takes the time it needs."""

FINDINGS_SHOWN_MAX = 100
"""Findings of an examination; more do not say more about what to do."""

UNEMBEDDED_ENDS = 100
"""Messages read at each end of the queue for deep vectors to find the oldest: a lookup each, a millisecond or two."""

JOBS_SHOWN_MAX = 50
"""Jobs in a report of health; an organisation seldom has more than two."""

LATENCY_SAMPLES = 512
"""Latest searches of an organisation whose time is kept: enough for the 99th percentile."""

LATENCY_ORGANIZATIONS_MAX = 1_000
"""Organisations whose times are kept in a process: 4 MB."""

DELIVERY_PAGE_MAX = 200
"""Rows of the log in one answer."""

SPOOL_POLL_S = 1
"""Between two looks of the engine at the spool, which cost microseconds."""

SPOOL_RETRY_S = 30
"""After a store that took nothing, such as a full one: the next attempt would fail as well."""

SPOOL_SETTLE_S = 3
"""After which a captured transcript is looked at once more, for what its client wrote after the hook."""

SPOOL_TAKE_S = 5
"""How long the engine waits for a hook that is just appending, which takes microseconds."""

SPOOL_STOP_S = 5
"""How long an engine that is told to stop goes on draining: its caller waits, and the next engine can do it."""

SPOOL_BYTES_MAX = 8_000_000
"""Some 20,000 events; beyond, `engram import` finds the transcripts as well."""

SOURCE_SETTLE_S = 600
"""After which a session that a program rewrites is taken for finished: no answer pauses for so long."""

SOURCE_LINE_BYTES_MAX = 64 * 1024 * 1024
"""A line of a transcript; a longer one is counted and passed over. Pictures make some of them long."""

SOURCE_ELEMENT_CHARACTERS_MAX = 128 * 1024 * 1024
"""One conversation of an export, which is held as a whole; a longer one ends the import of its file."""

TOOL_RESULT_CHARACTERS = 20_000
"""Of a captured tool call or result that are kept, unless an option says otherwise: files that an agent read or
wrote are on the disk still, and would be most of the store."""

CAPTURE_BATCH_BYTES = 8_000_000
"""Texts of a session that are sent in one capture; a single message may have more."""

SESSIONS_PENDING_MAX = 64
"""Sessions of one file whose messages wait for more of their kind; then all are sent."""

SESSION_TITLE_CHARACTERS = 120
"""Of a session's title, or of its first prompt if it has none."""

WATCH_S = 2
"""Between two looks of `engram import --watch` at the sizes of files."""

EXPORT_ENTRIES_MAX = 1_000_000
"""Files in the archive of an export: a day of a channel is one."""

CLIENT_FILE_BYTES_MAX = 64 * 1024 * 1024
"""A client's configuration file; the largest, Claude Code's, also holds histories of projects."""

CLIENT_FILE_DEPTH_MAX = 200
"""Nesting in a client's configuration file, below the recursion limit of Python."""

CLIENT_ANSWER_S = 20
"""How long `engram doctor clients` waits for a client's command to answer `initialize`."""

CLIENT_ANSWER_BYTES_MAX = 1_000_000
"""Of a server's answer to `initialize` that `engram doctor clients` reads."""

DIRECTORY_CHARACTERS_MAX = 4_096
"""The path of a session's directory: as long as Linux allows one to be."""

PAGE_SESSION_S = 7 * 86_400
"""How long a browser stays signed in to the page: a week of work without the key."""

PAGE_LINK_S = 3_600
"""How long a link signs a browser in, if it was not used before: time to find the terminal again."""

PAGE_STREAMS_PER_CALLER_MAX = 32
"""Live views that one key has open at once: tabs, not programs."""

PAGE_PULSE_S = 1
"""How often a live view looks whether something was stored, and whether its session goes on."""

PAGE_SIGN_IN_BYTES_MAX = 10_000
"""Body of a form that needs no session: a key, and the address to go to afterwards."""

PAGE_FORM_BYTES_MAX = 1_000_000
"""Body of a form of the page: a whole memory fits, however it is escaped."""

MEMORIES_CHANGED_MAX = 500
"""Memories that one call changes at once: each is a transaction of its own, and somebody waits."""

CHANGE_SETS_KEPT = 100
"""Acts on many things that an organisation can take back: the newest ones."""

PROJECT_RULES_MAX = 1_000
"""Aliases and exclusions of an organisation: all are read whenever a session is captured or reminded."""

PROJECT_MOVED_MAX = 10_000
"""Conversations, and memories, that one merge of projects moves: some ten seconds, and 500 KB to undo it."""

EXPORT_TEXT_CHARACTERS = 131_072
"""Of a text in one line of an export; the rest follows in further lines, so that no line is long."""

EXPORT_LINE_BYTES_MAX = 2_097_152
"""A line of an export: a text of control characters, each of six bytes, and all other fields."""

EXPORT_BLOCK_BYTES = 1_048_576
"""Of lines under one check, which an import verifies before it stores any of them."""

EXPORT_PAGE_BYTES = 2_000_000
"""Content that an export reads in one snapshot; a single text may have more."""

EXPORT_PAGE_ROWS = 200
"""Conversations, relations or other small rows that an export reads in one snapshot."""

EXPORT_MEMORIES_READ = 16
"""Memories with their histories that an export reads in one snapshot: each may have megabytes."""

EXPORT_ZSTD_WINDOW_BYTES = 8_388_608
"""Of a compressed export that is imported: what `zstd -19` uses. A larger one takes as much memory."""

EXPORT_ZSTD_SLICE_BYTES = 512
"""Of a compressed export that are decompressed at once: hostile ones expand to 128 KiB for each 4 bytes."""

IMPORT_BATCH_BYTES = 4_000_000
"""Texts that an import stores in one transaction; a single one may have more."""

IMPORT_BATCH_ITEMS = 500
"""Messages or memories that an import stores in one transaction: other writers wait for it."""

IMPORT_ATTEMPTS_MAX = 10
"""Of an import to store a batch while others write to the same conversations."""

IMPORT_PROBLEMS_LISTED = 1_000
"""Conflicts and refusals that an import names; beyond, it counts them."""
