"""Tell general questions and topics from questions that something specific answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

from engram.model.recall import OverviewReason
from engram.text.analyse import STOP_WORDS, query_terms

Vocabulary: TypeAlias = Mapping[OverviewReason | None, str]
"""The words of one language in questions about everything, by what they ask for."""

_ENGLISH: Vocabulary = {
    "open": "open todo task pending unfinished remaining outstanding left leave blocked blocker next step",
    "decision": "decision decide decided agreed conclusion",
    "preference": "preference prefer habit convention",
    "latest": """recent recently latest last current currently new newest now today yesterday week
        lately far status state progress update news change activity happen happened""",
    None: """project work working worked session conversation chat memory remember recall note context
        background history overview summary summarize summarise brief briefing recap digest
        important relevant useful key main general everything anything something thing stuff info
        information detail fact know known knowledge learn learned tell give show list get fetch
        load need let catch bring start starting begin beginning resume continue pick plan goal
        user me us team off time previous previously past earlier prior stand point help please hello hi""",
}

_GERMAN: Vocabulary = {
    "open": """offen offene offenen offenes todo aufgabe aufgaben ausstehend ausstehende unerledigt
        unerledigte übrig blockiert nächste nächsten nächstes schritt schritte""",
    "decision": """entscheidung entscheidungen entscheiden entschieden entschlossen beschluss beschlüsse
        beschlossen vereinbart abgemacht""",
    "preference": "vorliebe vorlieben präferenz präferenzen bevorzugt gewohnheit gewohnheiten",
    "latest": """zuletzt letzte letzten letztes letzter neu neue neues neueste neuesten neuestes aktuell aktuelle
        aktuellen aktueller kürzlich jetzt heute gestern woche stand status zustand fortschritt neuigkeiten
        änderung änderungen passiert geschehen""",
    None: """projekt projekte projekts projektstand arbeit arbeiten gearbeitet sitzung gespräch erinnerung
        erinnerungen erinnere erinnern notiz notizen kontext hintergrund verlauf überblick übersicht
        zusammenfassung zusammenfassen kurz wichtig wichtige wichtigen wichtigste wichtigsten allgemein alles
        etwas dinge sachen information informationen fakten wissen weiß weißt sag sage zeig zeige gib nenne
        liste hol bring brauche anfang anfangen beginnen weiter weitermachen fortsetzen fortfahren stehen
        geblieben plan ziel ziele nutzer benutzer team mal zeit früher vorher bitte hallo
        der die das dem den des ein eine einen einem einer und oder was wer wie wo wann warum welche welcher
        welches ist sind war waren habe haben hat hatte hatten wird werden wurde wurden wir ich du sie er es
        mein meine meinen meiner unser unsere unseren unserer mich mir uns dir dich von vom für mit zu zum zur
        im in an am auf aus bei beim über nach noch schon so soll sollte sollten muss müssen kann können gibt
        bisher als da alle allen""",
}

_SPANISH: Vocabulary = {
    "open": """abierto abierta abiertos abiertas pendiente pendientes tarea tareas inacabado inacabada queda quedan falta
        faltan bloqueado bloqueada siguiente siguientes próximo próxima próximos próximas paso pasos""",
    "decision": """decisión decisiones decidir decidido decidimos decidió acordado acordamos acuerdo acuerdos
        conclusión conclusiones""",
    "preference": "preferencia preferencias prefiere prefiero hábito hábitos costumbre costumbres",
    "latest": """reciente recientes recientemente último última últimos últimas actual actuales actualmente
        nuevo nueva nuevos nuevas ahora hoy ayer semana estado progreso avance avances novedades cambio
        cambios actividad pasó pasado ocurrió""",
    None: """proyecto proyectos trabajo trabajar trabajamos sesión conversación memoria recordar recuerdas
        recuerda nota notas contexto antecedentes historia historial resumen resumir resume visión general
        importante importantes relevante relevantes útil útiles principal principales todo toda todos todas
        algo cosa cosas información detalle detalles hecho hechos saber sé sabes conocer dime dame muestra
        muéstrame lista necesito empezar empezamos comenzar continuar seguir retomar quedamos plan planes
        objetivo objetivos usuario equipo tiempo anterior anteriores antes favor hola
        el la los las un una unos unas y o u e qué que quién quiénes cómo dónde cuándo cuál cuáles por para
        con de del en a al es son está están era fue hay ha he hemos han se nos me te lo le mi mis nuestro
        nuestra nuestros nuestras tu tus su sus yo nosotros debo debería deberíamos puedo puede sobre hasta""",
}

_FRENCH: Vocabulary = {
    "open": """ouvert ouverte ouverts ouvertes tâche tâches inachevé inachevée restant restante reste bloqué
        bloquée prochain prochaine prochains prochaines suivant suivante suivantes étape étapes""",
    "decision": """décision décisions décider décidé décidés convenu accord accords conclusion conclusions""",
    "preference": "préférence préférences préfère préfères habitude habitudes",
    "latest": """récent récente récents récentes récemment dernier dernière derniers dernières actuel actuelle
        actuels actuelles actuellement nouveau nouvelle nouveaux nouvelles maintenant hier semaine statut état
        avancement progrès changement changements activité passé aujourd hui""",
    None: """projet projets travail travailler travaillé session conversation mémoire souvenir souviens rappelle
        rappeler note notes contexte historique aperçu résumé résumer résume bref important importante
        importants importantes pertinent utile utiles principal principaux principale général tout toute tous
        toutes quelque chose choses information informations détail détails fait faits savoir sais connaître
        dis donne montre liste besoin commencer début continuer reprendre arrêtés arrêté plan plans but buts
        objectif objectifs utilisateur équipe temps précédent précédente avant plaît bonjour
        le la les l un une des d du de et ou où que qu quoi qui quel quelle quels quelles quand comment
        pourquoi est sont était étaient a as ai ont avons avez été être avoir il elle ils elles on nous vous
        je j tu me m te t se s c ce cet cette ces mon ma mes notre nos votre vos ton ta tes son sa ses en y à
        au aux dans sur pour par avec dois doit devons devrais peux peut sommes""",
}

_CHINESE: Vocabulary = {
    "open": "待办 未完成 没完成 任务 下一步 遗留 剩下 剩余 待处理 阻塞",
    "decision": "决定 决策 结论 商定 约定",
    "preference": "偏好 喜好 习惯 偏爱",
    "latest": """最近 最新 近期 当前 目前 现在 今天 昨天 本周 这周 上周 上次 状态 状况 进展
        进度 更新 变化 变更 动态 发生 到哪""",
    None: """项目 工作 会话 对话 聊天 记忆 记得 记住 回忆 笔记 备注 上下文 背景 历史 概览 概况 总结
        摘要 简要 重要 相关 有用 主要 关键 一般 所有 一切 全部 任何 事情 东西 信息 细节 事实 知道 了解
        告诉 显示 列出 需要 开始 继续 恢复 计划 目标 用户 团队 之前 以前 先前 请 你好 我们 我 你 应该
        什么 哪些 哪个 哪里 怎么样 怎么 如何 是 有 没有 的 了 吗 呢 和 与 及 在 把 都 还 做 说 过 一下 一些 些
        哪 到 个""",
}
"""Without spaces between words: they are looked for in the question, the longest first."""


_QUESTION_WORDS = frozenset(
    [
        "what",
        "who",
        "whom",
        "whose",
        "which",
        "when",
        "where",
        "why",
        "how",
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "can",
        "could",
        "may",
        "might",
        "must",
        "should",
        "shall",
        "will",
        "would",
        "has",
        "have",
        "had",
    ]
)
"""A query that begins with one of these is a question."""

TOPIC_TERMS_MAX = 4
"""A longer query says enough of what it is about to be judged as a question is."""

QUERY_CHARACTERS_MAX = 200
"""A longer query is neither general nor a topic."""


@cache
def _meanings() -> Sequence[Mapping[str, OverviewReason | None]]:
    """Return for each language the general words in their normal forms."""
    english = dict.fromkeys(STOP_WORDS) | _terms_of(_ENGLISH)
    return [english, *map(_terms_of, (_GERMAN, _SPANISH, _FRENCH))]


def _terms_of(vocabulary: Vocabulary) -> dict[str, OverviewReason | None]:
    return {term: reason for reason, words in vocabulary.items() for term in query_terms(words)}


_CHINESE_WORDS: Mapping[str, OverviewReason | None] = {
    word: reason for reason, words in _CHINESE.items() for word in words.split()
}
_CHINESE_PATTERN = re.compile("|".join(sorted(_CHINESE_WORDS, key=len, reverse=True)))


def general_reasons(query: str) -> frozenset[OverviewReason] | None:
    """Return what a general question asks for in particular; None if the question is specific.

    A question is general if none of its words names a subject: all of them are words of one language
    that would fit a question about any work.
    """
    if len(query) > QUERY_CHARACTERS_MAX:
        return None
    found: list[OverviewReason | None] = [
        _CHINESE_WORDS[word] for word in _CHINESE_PATTERN.findall(query)
    ]
    terms = query_terms(_CHINESE_PATTERN.sub(" ", query))
    if not terms and not found:
        return None
    for meanings in _meanings():
        if all(term in meanings for term in terms):
            found.extend(meanings[term] for term in terms)
            return frozenset(reason for reason in found if reason is not None)
    return None


def names_topic(query: str) -> bool:
    """Return True if a query is a few words that name a topic, and not a question."""
    stripped = query.strip().casefold()
    if len(stripped) > QUERY_CHARACTERS_MAX or stripped.endswith(
        ("?", "\N{FULLWIDTH QUESTION MARK}")
    ):
        return False
    first = stripped.partition(" ")[0]
    return first not in _QUESTION_WORDS and len(query_terms(stripped)) <= TOPIC_TERMS_MAX
