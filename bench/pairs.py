"""Messages, each with a question that shares no word with it, and others to hide them among."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple


class Pair(NamedTuple):
    """A message and a question that it answers in other words."""

    message: str
    question: str


PAIRS = tuple(
    Pair(*line.split(" | "))
    for line in """\
I adopted a beagle puppy from the shelter on Saturday. | Which dog lives with me now?
My sister is getting married in June at a vineyard. | When will the wedding be?
The doctor told me to stop eating gluten. | Are there dietary restrictions I must follow?
We moved to a flat in Porto last autumn. | In what city is my apartment?
I quit smoking three years ago. | How long since I gave up cigarettes?
Our boiler broke and the house is freezing. | What is wrong with the heating?
I always take the tram to the office. | How do I commute to work?
Grandma turned ninety and we baked her a cake. | How old is my grandmother?
The dentist pulled out one of my molars. | Which tooth was extracted?
My laptop was stolen at the railway station. | Where did somebody rob me of my computer?
I am allergic to peanuts and cashews. | Which nuts make me ill?
He bought a second-hand piano for the living room. | What musical instrument did they purchase?
The landlord wants to raise our rent by a tenth. | What is happening to the cost of housing?
I sprained my ankle while jogging in the park. | How was I injured when running?
Our flight was cancelled because of the storm. | Why could the plane not leave?
She speaks fluent Japanese thanks to her years in Osaka. | What foreign language has she mastered?
I parked on the third level of the garage. | Where is my car standing?
The kids are scared of thunder. | What are our children afraid of?
We planted tomatoes and basil on the balcony. | Which vegetables and herbs are we growing?
My boss promoted me to head of accounting. | What is my new position at the company?
I can't sleep without the window open. | What do I need at night to rest well?
The film made everyone cry. | Was that movie sad?
He failed his driving test twice. | Did he pass the exam for his licence?
I owe Daniel two hundred euros. | How much money must be repaid to my friend?
The baby started to walk yesterday. | Did our infant make her first steps?
My favourite colour is turquoise. | What shade do I like best?
Mum had surgery on her knee. | Which operation did my mother go through?
I swim forty lengths before breakfast. | What exercise happens in the early morning?
The restaurant was so noisy that we left early. | Why did dinner end sooner than planned?
We ran out of coffee again. | Which drink must I get from the supermarket?
The wifi password is on a sticker under the router. | How can guests connect to the internet?
I inherited a watch from my grandfather. | What heirloom came down to me?
Our neighbours complain about the drums. | Who is annoyed by loud music practice?
I prefer tea with lemon and no sugar. | How should my hot beverage be served?
The printer jams whenever it is humid. | Why does the office machine get stuck with paper?
We are expecting twins in November. | How many babies are due?
He became vegan after watching a documentary. | Why does he refuse meat and dairy?
I lost my passport in Madrid. | Which travel document vanished in Spain?
The bakery on the corner closed for good. | Which shop went out of business?
My thesis is about medieval trade routes. | What is the subject of my dissertation?
She broke up with Marco in spring. | When did her relationship end?
The roof leaks above the attic stairs. | Where does rain drip into the house?
I drive an electric hatchback now. | What kind of vehicle do I own?
Our cat sleeps on top of the fridge. | Where does the pet nap?
The deadline was pushed to the end of the quarter. | Until which date did they postpone delivery?
I get seasick on ferries. | Why do I avoid boats?
Dad retired after forty years as a plumber. | What was my father's profession?
We celebrate our anniversary at the same trattoria. | At which Italian restaurant do we dine each year?
My son collects fossils and minerals. | What hobby has my boy got?
The museum is shut on Mondays. | On what weekday can nobody visit the gallery?
I need glasses for reading. | Is my eyesight poor?
Our team uses a whiteboard for planning. | How do colleagues organise their tasks?
The hotel lost our booking. | What went wrong with the room reservation?
I cycle across the Alps every summer. | Which mountains do I cross by bike?
My phone screen is cracked. | What is damaged on the mobile?
He is terrified of heights. | What phobia does he suffer from?
The soup was far too salty. | What did I dislike in that meal?
We painted the nursery yellow. | How was the baby's room decorated?
I donate blood four times a year. | What do I regularly give to the hospital?
The concert tickets sold out within minutes. | Could we still get seats for the show?
My brother works on an oil rig off Norway. | Where is my sibling employed?
I cut my own hair during the lockdown. | Who was my barber in the pandemic?
The washing machine floods the bathroom. | Which appliance spills water?
We adopted a rule that nobody mails on weekends. | When must staff not send messages?
Ines wants a telescope for her birthday. | What gift would please her?
I left the umbrella on the bus. | What did I forget in public transport?
Their first album was recorded in a barn. | Where did the band make its debut?
The mechanic replaced both brake pads. | What was repaired on the car?
I studied chemistry in Leiden. | What was my university subject?
The garden is full of snails this year. | Which pests eat our plants?
She runs a small pottery studio. | What kind of business does she own?
My alarm rings at five. | What time do I wake up?
We feed the hedgehog behind the shed. | Which wild animal do we look after?
The jury acquitted him. | What was the verdict in court?
I'm reading a novel about a lighthouse keeper. | Which book is on my bedside table?
The contract ends in March unless we renew it. | When does our agreement expire?
My cousin joined the navy. | Which of my relatives serves in the military?
The nearest pharmacy is beside the fountain. | Where can one buy medicine?
I burned my hand on the oven. | How did I hurt myself in the kitchen?
He proposed to her on a glacier in Iceland. | Where did they get engaged?
Our school has a new headmistress. | Who leads the pupils and teachers?
I keep the spare key under the flowerpot. | How can one enter if nobody is home?
We spent the honeymoon in Vietnam. | Which Asian country did newlyweds visit?
The bank rejected our mortgage. | Did we obtain a loan for the house?
My uncle brews his own beer. | Which alcohol is made by a family member?
I take magnesium against cramps. | Which supplement helps my muscles?
The elevator is out of order, so we climb the stairs. | Why do we walk up to our floor?
The parrot can imitate the doorbell. | What trick does our bird know?
The queue at the town hall took two hours. | How slow was the municipal office?
I have a meeting with the tax adviser on Thursday. | When do I see the accountant?
My daughter hates spinach. | Which food does our girl refuse?
The lake is frozen thick enough to skate. | Can one walk on the ice?
We canceled the newspaper and read online. | How do we follow the daily press?
I played violin in the youth orchestra. | What musical past do I have?
The tenant upstairs snores. | Which noise disturbs us from above?
He earns more as a carpenter than as a lawyer. | Which trade pays him better?
My knee hurts when it gets cold. | Which joint is sensitive to weather?
The library fined me for late returns. | Why did I have to pay for borrowed books?
We saw dolphins from the cliff. | Which marine animals could be observed?
I dream of opening a bookshop. | What is my career wish?""".splitlines()
)

_TEMPLATES = """\
{name} asked whether the invoice for the {thing} had been sent to {place}.
The meeting about the {thing} was moved to {day}, {name} will bring the slides.
Could you check why the {system} logs {problem} since {day}?
{name} thinks the {thing} looks better in {color}.
On {day} we drove to {place} and had {food} by the river.
The {system} failed again with {problem}; restarting it helped for an hour.
Please remind {name} to return the {thing} before {day}.
{name} cooked {food} for eight guests and nothing was left over.
There is a fair in {place} on {day}, with {food} and a brass band.
I compared three offers for the {thing}, the cheapest comes from {place}.
The {system} needs an update before {day} or {problem} will come back.
{name} found an old photograph of the {thing} in a drawer.
In {place} it rained until {day}, then the sun came out.
{name} wrote a short story about a {color} {thing}.
We should order {food} for the workshop on {day}.
The new {thing} arrived in a {color} box without a manual.
{name} is learning how to restore a {thing}, the course is in {place}.
After {problem} on the {system} we added a test and a note for the team.
The {thing} in the hallway belongs to {name}.
{name} took the early train to {place} and was back by {day}.
Somebody left {food} on the desk next to the {thing}.
The survey from {place} shows that most people want a {color} {thing}.
{name} explained how the {system} avoids {problem} when many people use it at once.
Let us talk about {place} on {day}, I have seen enough maps for today.
The recipe for {food} comes from a friend of {name} in {place}.
""".splitlines()

_WORDS = {
    "name": "Lena Ravi Tom Aiko Bruno Carla Deniz Elsa Farid Greta Hugo Ilse Jonas Kofi Lucia Mats",
    "thing": "lamp sofa bicycle poster camera carpet fountain trophy backpack clock kettle ladder",
    "place": "Ghent Lyon Tartu Bergen Verona Krakow Leeds Graz Malmo Cork Bilbao Trier",
    "day": "Monday Tuesday Wednesday Friday Sunday",
    "system": "backup scheduler gateway cache importer dashboard mailer indexer",
    "problem": "timeouts duplicates deadlocks warnings gaps retries overflows",
    "color": "green red grey orange white violet",
    "food": "risotto pancakes lentils dumplings paella waffles gnocchi falafel",
}


def others(count: int) -> Iterator[str]:
    """Yield so many different messages about other things, the same on every run."""
    choice = random.Random(3)  # noqa: S311 the same choices on every run
    words = {slot: stock.split() for slot, stock in _WORDS.items()}
    seen: set[str] = set()
    while len(seen) < count:
        chosen = {slot: choice.choice(stock) for slot, stock in words.items()}
        text = choice.choice(_TEMPLATES).format(**chosen)
        if text not in seen:
            seen.add(text)
            yield text


def hidden(*, among: int) -> list[str]:
    """Return the messages of the pairs at scattered places among other messages."""
    texts = [*others(among), *(pair.message for pair in PAIRS)]
    random.Random(4).shuffle(texts)  # noqa: S311 the same order on every run
    return texts
