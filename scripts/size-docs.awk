# The lengths of sentences in pages, without tables, code and headings: for scripts/size. With -v all=1 it prints each
# sentence that is longer than 40 words.

function sentence_end(    count) {
    count = split(sentence, list, " ")
    if (count > 1) { sentences++; total += count; if (count > most) most = count }
    if (count > 40 && all) print FILENAME ":" begun ": " count " words"
    too_long += count > 40
    sentence = ""
}

function text_add(text,    mark) {
    gsub(/`[^`]*`/, "x", text)
    gsub(/\]\([^)]*\)/, "]", text)
    text = text " "
    while (match(text, /[.!?][")\]*_]* /)) {
        if (sentence == "") begun = FNR
        sentence = sentence " " substr(text, 1, RSTART)
        sentence_end()
        text = substr(text, RSTART + RLENGTH)
    }
    if (text !~ /^ *$/ && sentence == "") begun = FNR
    if (text !~ /^ *$/) sentence = sentence " " text
}

FNR == 1 { sentence_end(); is_code = 0 }
/^ *```/ { sentence_end(); is_code = !is_code; next }
is_code { next }
{ words += NF }
/^ *\|/ || /^#/ || /^ *$/ || /^    / || /^<!--/ { sentence_end(); next }
/^ *([-*]|[0-9]+\.) / { sentence_end(); sub(/^ *([-*]|[0-9]+\.) /, "") }
{ text_add($0) }
END {
    sentence_end()
    printf "words of pages\t%d\nwords of the mean sentence\t%.1f\n", words, total / sentences
    printf "words of the longest sentence\t%d\nsentences of more than 40 words\t%d\n", most, too_long
}
