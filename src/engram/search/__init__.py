"""Search: find candidates, score and rank them, and pack the best within a token budget.

Every step is a pure function, except for embedding the query and reading from the store.

    query            text -> vectors; which tiers are unavailable
    candidates       the best candidates of each leg, and reading what was chosen
    profiles, score  the weight of each leg; leg values -> fused value -> score and order
    choose, pack     which candidates are returned; grouping them within a token budget
    deliver          results from the messages and memories that were read
    pipeline         `search`, made of these steps
    recall           `memory_recall`: memories, their relations, conflicts and neighbours
    context          `fetch_context`: entries packed into one fenced text, and its cache
    document_query   `memory_query_document`: spans by pattern and by meaning

The BM25 formula is `engram.text.bm25`; a store's word index applies it in `engram.storage.postings`, and the
cosines of vectors are computed in `engram.vectors`. Both arrive here as columns of the candidates.
"""
