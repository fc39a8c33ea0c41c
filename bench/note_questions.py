"""Notes of many kinds, each with a question and a topic in other words, and foreign ones."""

from __future__ import annotations

from typing import NamedTuple

from engram.model.memory import CATEGORIES, Category


class AskedNote(NamedTuple):
    """A note, its category, and two queries that should fetch it."""

    category: Category
    content: str
    question: str
    topic: str
    """A few words that seldom occur in the note, as a model writes that looks for context."""


def _asked(line: str) -> AskedNote:
    name, *texts = line.split(" | ")
    return AskedNote(next(each for each in CATEGORIES if each == name), *texts)


ASKED_NOTES = tuple(
    _asked(line)
    for line in """\
technical | The orders table is partitioned by month; partitions older than two years are detached every January. | When are partitions of the orders table detached? | how do we archive old purchases in the database?
technical | Uploads above 25 MB go straight to object storage with a signed address that lives ten minutes. | What is the largest upload that goes through the server? | large file transfer limits
technical | Retries use exponential backoff starting at 200 ms with full jitter, five attempts at most. | How often do we retry a failed call? | what happens when a request fails?
technical | Feature switches are read from the config service once a minute and cached in memory. | How long are feature flags cached? | how quickly does a toggle take effect
technical | The mobile client talks gRPC to the gateway, the browser uses plain JSON over HTTPS. | What does the mobile client use to reach the gateway? | which protocol does the phone app speak?
technical | Nightly backups are encrypted with the key in the vault under ops/backup and kept for 35 days. | How long do we keep backups? | disaster recovery retention
technical | Redis runs with appendonly off: it holds nothing that cannot be rebuilt. | Do we persist Redis to disk? | is the cache durable?
technical | Tests that need a browser are marked slow and run only on the main branch. | When do the browser tests run? | why were the end-to-end checks skipped on my pull request
technical | The search index is rebuilt on Sundays at 03:00; it takes about forty minutes. | At what time is the search index rebuilt? | scheduled maintenance windows
technical | Passwords are hashed with argon2id, 64 MB memory and three passes. | Which hash do we use for passwords? | credential storage
technical | Dates travel as UTC strings with a Z; the interface converts them to the visitor's zone. | In what form are dates sent to the client? | timezone handling convention
technical | The payment webhook must answer within five seconds or the provider sends it again. | How fast must the webhook of the payment provider reply? | duplicate charge notifications
technical | We pin the compiler to 1.79 because 1.80 miscompiles the SIMD path on ARM. | Why is the compiler pinned to an old version? | can I upgrade the toolchain?
technical | Logs are structured as one JSON object per line and shipped by the sidecar. | What do our log lines look like? | observability format
technical | A tenant's data never leaves its region; Frankfurt and Oregon are separate clusters. | May customer data be copied from Europe to the US? | GDPR data residency
technical | The rate limiter counts per API key, not per address, since offices share one. | Is the rate limit per key or per IP? | throttling strategy
technical | Long jobs run on the worker pool named heavy, with a timeout of two hours. | Which worker pool takes long jobs? | where do batch computations execute
technical | Images are resized on the fly and cached at the edge for a week. | How long does the CDN keep resized images? | thumbnail generation
technical | The legacy SOAP endpoint is still used by one bank and must not be removed before March. | Can we delete the SOAP endpoint? | which old integrations are we stuck with?
technical | Memory leaks in the report service came from the PDF library; it is restarted after 500 documents. | Why is the report service restarted all the time? | why does the exporter get recycled?
technical | Table names are singular and snake case; join tables carry both names in alphabetical order. | Should a table be called user or users? | naming rules for the schema
technical | Secrets are injected as files under /run/secrets, never as environment variables. | Are secrets in environment variables? | how does the container get its API tokens
technical | The Kafka consumer group was renamed in April, so offsets before that are gone. | Why are the old Kafka offsets missing? | event stream history
technical | Migrations must be backward compatible for one release: add, deploy, then drop. | How do we write a migration that drops a column? | zero downtime schema changes
technical | Flaky test test_sync_order is caused by clock skew in the container; freeze the time. | What makes test_sync_order fail now and then? | intermittent CI failures
project | We chose PostgreSQL over MongoDB because the reports need joins. | Why did we pick Postgres? | why not a document store?
project | The launch of version 4 moved from May to the second week of September. | When will version 4 be launched? | release date
project | Marta owns the billing rewrite; Jonas reviews everything that touches invoices. | Who reviews changes to invoices? | who is responsible for payments?
project | The client approved the blue design and rejected the one with the carousel. | Which design did the client approve? | which mockup won?
project | Sprint reviews are on Thursdays at two, with the customer on the call. | On which day is the sprint review? | when do we demo?
project | The budget for hosting is 1,200 euros a month and we are at 900. | How much may hosting cost? | infrastructure spending
project | We decided to drop support for Internet Explorer and Safari below 15. | Do we still support Safari 14? | browser compatibility
project | The pilot runs with three hospitals until the end of the year. | How many hospitals take part in the pilot? | trial customers
project | Decision: no microservices before we have more than ten engineers. | Are we going to build microservices? | should we split the monolith?
project | The contract with the translation agency ends in October and will not be renewed. | What happens with the translation agency after October? | localisation vendor
project | Two freelancers join in July to work on accessibility. | Who is joining the team in July? | team growth
project | The public API is frozen at v2; new fields may be added, none removed. | May I remove a field from the public API? | can we break the interface?
project | Users abandon the wizard on the third screen, where it asks for a tax number. | Where do users give up in the wizard? | sign-up drop-off
project | Acceptance criteria live in the wiki under Delivery, not in the tickets. | Where do I find the acceptance criteria? | definition of done
project | We will open source the parser under MIT once the lawyers agree. | Under what licence will the parser be published? | licensing plans
project | The name of the product changes from Harbor to Lantern in the autumn. | What will the product be called? | rebranding
project | The customer wants a monthly PDF report rather than a dashboard. | Does the customer want a dashboard? | how should the numbers be presented to them?
project | Support for Arabic and Hebrew is promised for the first quarter. | When do we support Hebrew? | right-to-left languages
project | The security audit found two medium issues, both in the session handling. | What did the security audit find? | penetration test results
project | We postponed the warehouse integration until the new ERP is live. | What are we waiting for with the warehouse integration? | what is blocked by the other system?
project | Load tests passed at 400 requests a second on two nodes. | How many requests per second did the load test reach? | how much traffic can we take?
project | The prototype for offline mode was thrown away; conflicts were too hard to explain to users. | What became of the offline mode? | working without a connection
project | Only Priya may deploy on Fridays. | Who can deploy on a Friday? | end of week releases
project | The data science group needs the raw events as Parquet, delivered every morning. | In which format do data scientists get the events? | analytics export
project | The onboarding e-mails are written by Lukas and sent through the marketing account. | Who writes the onboarding mails? | welcome messages
user_pref | I like commit messages in the imperative, without emoji. | How does the user like commit messages? | how should I describe my changes in git?
user_pref | The user wants answers in German unless the question is about code. | Should I answer in German or English? | what language to reply in
user_pref | Prefers tabs over spaces and a line length of 100. | Tabs or spaces? | formatting style
user_pref | Never use the word leverage in any text for Sarah. | Which word must not appear in texts for Sarah? | vocabulary to avoid
user_pref | She works from six to two and does not read messages afterwards. | When does she stop working? | office hours
user_pref | Show diffs before writing any file. | Can I write files without showing a diff first? | may I edit things directly?
user_pref | He is colour blind: no red and green next to each other in charts. | Which colours should I avoid in charts for him? | accessibility of graphs
user_pref | Keep explanations short; three sentences are enough unless asked for more. | How long should an explanation be? | verbosity
user_pref | Use pnpm and not npm in all of my repositories. | npm or pnpm? | package manager
user_pref | Vim keybindings everywhere, also in the notebook. | Does the user want vim keys? | editor setup
user_pref | The user is a vegetarian and avoids mushrooms. | Can we serve mushroom risotto to the user? | dinner suggestions
user_pref | Calls me Sam, not Samantha. | What name does the user go by? | how to address the user
user_pref | Wants unit tests written before the implementation. | Are tests to be written first? | development workflow
user_pref | Dislikes inheritance; prefers small functions and plain data. | Does the user like class hierarchies? | object oriented design
user_pref | Prices should be quoted in Swiss francs. | In what currency should prices be given? | currency
user_pref | Ask before installing a new dependency. | Do I have to ask before I add a package? | adding libraries
user_pref | I read on a phone, so tables with more than three columns are useless to me. | How wide may a table be? | layout of answers
user_pref | Python examples should target 3.12 and use type hints. | Which Python version do the examples need? | code sample conventions
user_pref | Travels with hand luggage only and always takes the train when it is under five hours. | Does the user fly to Paris or go by train? | trip planning
user_pref | The user gets migraines from flashing animations. | Why should there be no flashing animations? | motion in the interface
feedback | Customers say the export is too slow when they have more than ten thousand rows. | What do customers say about the export? | performance complaints
feedback | Three people asked for a dark theme in the last survey. | How many people want a dark theme? | most wanted appearance change
feedback | The new search was praised by the support team: they find tickets in half the time. | What does the support team think of the new search? | what went well?
feedback | Users abandon checkout at the payment gateway. | Where do users leave the checkout? | onboarding friction points
feedback | Testers could not find the logout button; it is hidden in the avatar menu. | Why could testers not log out? | usability problems
feedback | The reviewer thought the introduction was too technical for managers. | What did the reviewer say about the introduction? | criticism of the document
feedback | Several clients mix up archive and delete and lose their drafts. | Which two commands do clients confuse? | confusing wording
feedback | My last answer was too long and missed the question about cost. | What was wrong with my previous answer? | mistakes to avoid next time
feedback | Blind users report that the calendar cannot be operated with a screen reader. | Can the calendar be used with a screen reader? | WCAG issues
feedback | The sales team wants the price on the first page of the offer. | What does the sales team want in the offer? | requests from colleagues
feedback | People love the keyboard shortcuts but nobody discovers them. | Do people know the keyboard shortcuts? | feature discoverability
feedback | Invoices arrive in the spam folder of half of our Italian customers. | Why do Italian customers not see our invoices? | mail deliverability
feedback | The trainer said that the sample data should be less American. | What did the trainer say of the sample data? | internationalisation of demos
feedback | Beta users found the notifications annoying after the third day. | How do beta users feel about notifications? | too many alerts
feedback | The mentor suggested fewer comments and better names. | What did the mentor suggest? | code review advice
feedback | Two customers cancelled because there is no single sign-on. | Why did two customers cancel? | churn reasons
feedback | Onboarding calls shorter than twenty minutes get better ratings. | How long should an onboarding call be? | ideal length of training
feedback | The translation of 'Settings' into Dutch is wrong on the profile page. | Which Dutch translation is wrong? | language errors
feedback | Warehouse staff need bigger buttons because they wear gloves. | Why do warehouse workers need large buttons? | touch targets
feedback | The search box ignores umlauts, which annoys German users. | Does search find words with umlauts? | diacritics bug
general | Wolfgang's wife is called Irene and they have a boat in Trieste. | What is the name of Wolfgang's wife? | small talk about the boss's family
general | The coffee machine on the second floor takes only the blue capsules. | Which capsules fit the coffee machine? | what to buy for the kitchen
general | The door code of the workshop is on the card behind the fuse box. | Where is the code for the workshop door? | how do I get into the building?
general | Our landlord is Mr Okafor, reachable on weekdays before noon. | When can I reach Mr Okafor? | who do we call about the lease?
general | The rehearsal is every Tuesday in the parish hall, bring the second violin part. | On which evening is the rehearsal? | orchestra practice
general | Grandmother's apple cake uses buttermilk and no eggs. | Are there eggs in grandmother's cake? | family recipe
general | The car needs new brake pads before winter. | What has to be replaced on the car? | vehicle maintenance
general | Nora's school project about volcanoes is due on the ninth. | When is Nora's project about volcanoes due? | homework deadlines
general | The allotment has water only from April to October. | From when is there water in the allotment? | gardening season
general | The vet said to give the cat half a tablet every other day. | How much of the tablet does the cat get? | pet medication
general | Flight to Lisbon leaves from terminal 2, seats 14A and 14B are booked. | Which terminal does the flight to Lisbon leave from? | airport details
general | The insurance does not cover bicycles left outside overnight. | Is a bicycle insured if it stands outside at night? | theft protection
general | Pilar plays the cello and is looking for a quartet. | Which instrument does Pilar play? | musicians we know
general | The old laptop's battery swells; do not charge it unattended. | What is the matter with the old laptop? | hardware hazard
general | The museum is free on the first Sunday of the month. | When is entry to the museum free? | cheap weekend activities
general | The marathon training plan has the long run on Saturdays. | On which day is the long run? | exercise schedule
general | Uncle Bert is allergic to bee stings and carries an adrenaline pen. | What is uncle Bert allergic to? | medical emergencies in the family
general | The neighbours look after the plants while we are in Norway. | Where are we while the neighbours water the plants? | who waters the flowers during vacation?
general | The tax adviser wants all receipts by the end of February. | By when does the tax adviser need the receipts? | accounting paperwork
general | Our Wi-Fi name is Kestrel and visitors use the network Kestrel-Guest. | What is the name of the guest network? | internet for guests
general | Elena starts kindergarten in August and needs indoor shoes. | When does Elena start kindergarten? | what to prepare for the child
general | The piano was tuned in March and holds well except the lowest octave. | When was the piano tuned? | instrument condition
general | The tent leaks at the left seam; there is a repair kit in the blue box. | Where is the repair kit for the tent? | camping equipment problems
general | Grandfather's letters from 1943 are with aunt Hilde in Graz. | Who has grandfather's letters? | wartime family documents
general | The gym contract renews itself unless it is cancelled three months before June. | How do I get out of the gym contract? | subscriptions to end
""".splitlines()
)

FOREIGN_QUERIES = tuple(
    """\
what is the capital of Mongolia?
how do I bake sourdough bread?
who won the world cup in 1998?
translate good morning into Swahili
quantum entanglement explained
symptoms of vitamin D deficiency
plot of Macbeth
best hiking boots for wide feet
how far is the moon?
rules of cricket
history of the Ottoman empire
how do I change a bicycle inner tube?
chemical formula of caffeine
what is a haiku?
beginner yoga poses
how does photosynthesis work?
population of Brazil
who painted Guernica?
how are pearls formed?
chess opening for black against e4
price of gold yesterday
learn to play the ukulele
what causes tides?
Roman numerals for 2024
which planets have rings?
how do vaccines work?
divorce law in Texas
best time to prune roses
how do I tie a bow tie?
lyrics of Bohemian Rhapsody
GraphQL subscriptions setup
how do I configure the VPN on Windows?
Terraform state locking
does our Elasticsearch cluster use ILM?
iOS push notification certificates
when does the SSL certificate expire?
who is the scrum master?
how many story points did we finish?
Kubernetes ingress annotations
which linter do we use for CSS?
unit price of the enterprise plan
what is the office dress code?
how do I request parental leave?
machine learning model accuracy
video call quality problems
what did the board say about the merger?
favourite football team
which cinema shows the new film?
where did I leave my umbrella?
birthday of my brother
what did Tomas say about the lawsuit?
blockchain consensus algorithm in our stack
COBOL mainframe connector
which GPU trains the speech model?
satellite ground station schedule
how do we calibrate the spectrometer?
firmware of the elevator controller
patent application number
shipping costs to Australia
what is the warranty on the dishwasher?
""".splitlines()
)
"""What none of the notes answers: general knowledge, and the kind of things that the notes are about."""
