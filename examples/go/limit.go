package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"
)

// What of sluice's answer goes on to the client.
var passedOn = []string{"RateLimit", "RateLimit-Policy", "Retry-After"}

const answerBytesMax = 1 << 16

// limiter asks sluice about each request (POST /v1/take) before it is served.
type limiter struct {
	url    string       // as http://127.0.0.1:8390
	client *http.Client // its Timeout is the longest that a request waits for sluice
	open   bool         // if sluice cannot be reached requests pass; else they are refused with 503
}

// errUnreachable says that sluice gave no answer. No other error lets a request pass: an answer that is not a decision comes of a
// mistake, as in a rule, or of a sluice that cannot decide.
type errUnreachable struct{ error }

func newLimiter(url string, timeout time.Duration, open bool) *limiter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100 // connections that are kept
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &limiter{url: url, client: &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: noRedirects}, open: open}
}

func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, header, body, err := l.take(r)
		if err != nil && !errors.As(err, &errUnreachable{}) {
			log.Printf("sluice does not decide: %v", err)
			code := http.StatusInternalServerError
			if status >= http.StatusInternalServerError {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, "the limits cannot be checked", code)
			return
		}
		if err != nil {
			log.Printf("sluice cannot be reached (open: %t): %v", l.open, err)
			if l.open {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Retry-After", "1")
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		for _, name := range passedOn {
			if value := header.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		if status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", header.Get("Content-Type"))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

// take returns 200 or 429; or an error, with the status of sluice's answer if there is one.
func (l *limiter) take(r *http.Request) (int, http.Header, []byte, error) {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return 0, nil, nil, err
	}
	question, err := json.Marshal(map[string]any{
		"entries": map[string]string{"method": r.Method, "path": r.URL.Path, "ip": ip},
	})
	if err != nil {
		return 0, nil, nil, err
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, l.url+"/v1/take", bytes.NewReader(question))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := l.client.Do(request)
	if err != nil {
		return 0, nil, nil, errUnreachable{err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return 0, nil, nil, errUnreachable{err}
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
		return answer.StatusCode, nil, nil, fmt.Errorf("%s: %s", answer.Status, body)
	}
	return answer.StatusCode, answer.Header, body, nil
}
