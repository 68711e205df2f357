module example.com/limited

go 1.19
