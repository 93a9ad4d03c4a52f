package rawjson

import "bytes"

// Walk calls visit with each member of the object obj: its key, unquoted, and
// where its value stands.
func Walk(obj []byte, visit func(key []byte, start, end int)) {
	i := skipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return
	}
	i = skipSpace(obj, i+1)
	for i < len(obj) && obj[i] == '"' {
		keyEnd := skipString(obj, i)
		key := unquoted(obj[i:keyEnd])
		start := skipSpace(obj, keyEnd)
		if start < len(obj) && obj[start] == ':' {
			start = skipSpace(obj, start+1)
		}
		end := skipValue(obj, start)
		visit(key, start, end)
		i = skipSpace(obj, end)
		if i < len(obj) && obj[i] == ',' {
			i = skipSpace(obj, i+1)
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at b[i].
func skipString(b []byte, i int) int {
	first := i + 1
	for i = first; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		i += n
		back := i
		for back > first && b[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 { // each two backslashes are one
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the value that starts at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of what the value stands in
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Count returns how many values there are in JSON text, those of lists and
// objects among them, or a few more.
func Count(data []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
