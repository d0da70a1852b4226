"""Documents of a company that does not exist, and questions about them, for tests of search.

A question has a kind: "paraphrase" shares few words with its answer, "identifier" names a code, a
number or a model, "word" is one rare word or a compound whose parts stand apart, "other" is asked
in the other language. Its answer is a piece of text that only the right passage has.
"""

from dataclasses import dataclass
from pathlib import Path

FILES = {
    "인사/휴가 규정.md": """# 휴가 규정
## 연차
입사 1년이 지나면 15일의 연차가 생긴다. 2년마다 하루씩 늘어 최대 25일이 된다.
쓰지 않은 연차는 다음 해 3월까지 쓸 수 있고, 그 뒤에는 수당으로 받는다.
## 경조 휴가
본인 결혼은 5일, 자녀 결혼은 1일을 쉰다. 부모나 배우자가 세상을 떠나면 5일을 쉰다.
## 병가
3일 이상 아프면 진단서를 내야 한다. 병가는 한 해 30일까지 급여의 70%를 받는다.
""",
    "인사/육아 지원.md": """# 육아 지원 제도
## 육아휴직
만 8세 이하의 자녀가 있으면 최대 1년을 쉴 수 있다. 복직하면 같은 직무를 맡는다.
## 배우자 출산
아내가 출산하면 20일의 유급 휴가를 120일 안에 나누어 쓴다.
## 어린이집
본사 2층에 사내 어린이집이 있다. 정원은 49명이고 매년 11월에 추첨한다.
""",
    "인사/재택근무.md": """# 재택근무 지침
주 2회까지 집에서 일할 수 있다. 전날 오후 6시까지 팀장에게 알린다.
## 장비
모니터와 의자는 회사가 빌려준다. 인터넷 요금은 월 3만 원까지 지원한다.
## 보안
집에서는 반드시 VPN을 켜고, 카페의 공용 와이파이는 쓰지 않는다.
""",
    "재무/경비 처리.md": """# 경비 처리 기준
## 교통
밤 11시가 넘어 퇴근하면 택시 비용을 청구할 수 있다. 한도는 4만 원이다.
시내 출장은 지하철과 버스를 원칙으로 한다.
## 식대
야근 저녁은 1만 5천 원까지, 손님 접대는 한 사람당 5만 원까지 인정한다.
## 증빙
영수증은 쓴 날부터 30일 안에 전표 시스템에 올린다. 늦으면 다음 분기로 넘어간다.
""",
    "재무/법인카드.md": """# 법인카드 사용 안내
법인카드는 과장 이상에게 발급한다. 월 한도는 200만 원이다.
유흥업소와 상품권 구매에는 쓸 수 없다. 분실하면 카드사 1588-7700으로 바로 신고한다.
결제일은 매달 14일이며 전표에는 계정과목 코드 6210을 적는다.
""",
    "재무/purchase-policy.md": """# Purchasing policy
## Approval limits
Orders below 500,000 won need no approval. A team lead signs up to 5 million won, and the CFO
signs anything above that amount.
## Vendors
New suppliers must hand in a business licence and a bank statement. We pay invoices 45 days after
delivery. Three competing quotes are required above 10 million won.
""",
    "출장/해외 출장.md": """# 해외 출장 안내
## 준비
출발 2주 전까지 품의를 올린다. 비자가 필요한 나라는 총무팀이 대신 신청한다.
여권의 유효 기간은 여섯 달 넘게 남아 있어야 한다.
## 항공과 숙소
비행이 8시간을 넘으면 프리미엄 이코노미를 탈 수 있다. 호텔은 1박 180달러까지 인정한다.
## 일비
하루 60달러를 준다. 현지에서 남은 외화는 돌아와 5일 안에 반납한다.
""",
    "it/vpn-guide.md": """# VPN guide
## Installing
Download the client from the software centre and sign in with your employee number. The profile
is called corp-east-2.
## Second factor
Approve the push message on your phone. If you lose the phone, call the help desk at extension
4410 and they will issue a temporary code that lasts for 24 hours.
## Trouble
Error 809 means that the firewall blocks UDP port 4500; use the TCP profile instead.
""",
    "it/password-policy.md": """# Password policy
Passwords have at least 14 characters and are changed once a year. Five wrong attempts lock the
account for half an hour. Never reuse one of the last ten passwords.
## Managers
Store secrets in the vault that we license from KeyBarn; sticky notes and spreadsheets are not
allowed.
""",
    "it/장애 대응.md": """# 장애 대응 절차
## 등급
S1은 모든 고객이 쓸 수 없는 상태이고 15분 안에 상황실을 연다. S2는 일부 기능이 멈춘 상태다.
## 오류 코드
PAY-5031은 결제 대행사의 응답이 늦을 때 나온다. 재시도 간격을 30초로 늘린다.
PAY-5032는 카드사가 거절한 경우이므로 재시도하지 않는다.
AUTH-2207은 토큰이 만료된 것이다. 세션 서버를 다시 시작한다.
## 사후 보고
장애가 끝나면 5영업일 안에 보고서를 쓴다. 누구를 탓하지 않고 원인만 적는다.
""",
    "it/servers.md": """# Server inventory
| host | role | rack | owner |
|---|---|---|---|
| db-kr-07 | primary database | B12 | data team |
| db-kr-08 | replica | B14 | data team |
| mq-kr-03 | message queue | C02 | platform team |
| web-us-11 | landing page | U31 | marketing |
""",
    "it/backup.md": """# Backups
Every database is copied at 03:00 each night and kept for 35 days. Monthly copies stay for seven
years in cold storage.
## Restoring
Open a ticket of type RST-1 and name the table and the minute. Restoring a terabyte takes about
four hours. We rehearse it every quarter.
""",
    "제품/MX-410 사양.md": """# MX-410 공기질 측정기 사양
## 제원
무게는 310그램, 크기는 120×80×42밀리미터다. 배터리는 충전 한 번에 18시간 간다.
## 센서
초미세먼지는 PMS7003, 이산화탄소는 SCD41 센서로 잰다. 오차는 ±10% 안이다.
## 인증
KC 인증 번호는 R-R-ABC-MX410이다. 방수 등급은 IP54다.
""",
    "제품/MX-420 사양.md": """# MX-420 공기질 측정기 사양
## 제원
무게는 355그램이고 화면이 커졌다. 배터리는 26시간 간다.
## 센서
라돈을 재는 RD200M 센서가 더해졌다. 이산화탄소는 SCD41 센서로 잰다.
## 인증
KC 인증 번호는 R-R-ABC-MX420이다. 방수 등급은 IP65다.
""",
    "제품/release-notes.md": """# Release notes
## 4.12.0
Dark mode for the dashboard. Exports to Parquet. Fixed a crash when a sensor was renamed while
recording (ticket AIR-1893).
## 4.11.2
Hotfix: charts showed the wrong time zone for users in Hawaii (ticket AIR-1877).
## 4.11.0
Alerts can be sent to Slack and Teams. The old mobile app is no longer supported.
""",
    "제품/보증.md": """# 보증과 수리
구입일부터 2년 동안 무상으로 고친다. 떨어뜨리거나 물에 빠뜨린 고장은 돈을 받는다.
## 교환
받은 지 14일 안에 불량이면 새 제품으로 바꾸어 준다. 상자와 구성품이 모두 있어야 한다.
## 수리 접수
센터에 택배로 보내면 평균 6일이 걸린다. 접수 번호는 RMA로 시작한다.
""",
    "법무/개인정보.md": """# 개인정보 처리 지침
## 보관
회원이 탈퇴하면 5일 안에 정보를 지운다. 전자상거래 기록은 법에 따라 5년을 둔다.
## 유출
정보가 새어 나간 것을 알면 72시간 안에 위원회에 신고하고 당사자에게 알린다.
## 책임자
개인정보 보호책임자는 윤서하 이사다. 문의는 privacy@example.com으로 받는다.
""",
    "법무/nda-template.md": """# Mutual non-disclosure agreement
## Term
The duty of secrecy ends three years after the last exchange of information.
## Exceptions
What is public already, or was known to the receiving party before, is not confidential.
## Courts
Disputes are settled by the Seoul Central District Court under Korean law.
""",
    "총무/사옥 안내.md": """# 사옥 안내
## 주차
지하 3층부터 5층까지 직원이 쓴다. 손님은 2시간까지 무료이고 안내 데스크에서 도장을 받는다.
## 회의실
회의실은 예약하고 10분이 지나도 아무도 없으면 자동으로 취소된다. 큰 방은 한라와 백두다.
## 구내식당
점심은 11시 30분부터 1시까지다. 채식 메뉴는 화요일과 목요일에 나온다.
""",
    "총무/안전.md": """# 안전 수칙
## 화재
비상벨이 울리면 승강기를 타지 말고 계단으로 내려간다. 모이는 곳은 정문 앞 잔디밭이다.
## 제세동기
심장이 멈춘 사람을 보면 1층 로비와 7층 휴게실의 자동심장충격기를 가져온다.
## 지진
책상 밑에 몸을 피하고 흔들림이 멎은 뒤 나간다.
""",
    "support/refunds.md": """# Refunds
Customers may send a device back within 30 days, and the full price is returned to the card
within five working days. After that period we offer store credit only.
## Shipping
We pay for the return label if the device is faulty. Otherwise the customer pays 3,000 won.
""",
    "support/tone.md": """# How we write to customers
Be brief and kind. Answer the question in the first sentence, apologise once, and never blame the
customer. Sign with your first name.
## Escalation
Angry messages that mention a lawyer or the press go to Minjae Seo within the hour.
""",
    "회의/2024-03-주간.txt": """3월 둘째 주 주간 회의

참석: 윤서하, 박도현, 서민재

부산 물류 창고의 재고 실사가 오차 0.3%로 끝났다.
신제품 발표는 5월 21일로 미루기로 했다. 이유는 금형이 늦었기 때문이다.
다음 회의까지 박도현이 반도체 단가를 다시 협상한다.
""",
    "교육/onboarding.md": """# Your first week
Monday: pick up your badge and laptop at the reception on the ground floor.
Tuesday: your buddy shows you the code base and the release train.
Friday: lunch with the founders.
## Learning budget
Everyone gets 1.2 million won a year for books, courses and conferences. Unused money expires in
December.
""",
}


@dataclass(frozen=True)
class Question:
    """A question, its kind, the file that answers it and a piece of text of the right passage."""

    kind: str
    text: str
    file: str
    answer: str


_ASKED = """
paraphrase|휴가 남은 거 내년에도 쓸 수 있나요?|인사/휴가 규정.md|다음 해 3월까지
paraphrase|아버지가 돌아가셨는데 며칠 쉴 수 있죠?|인사/휴가 규정.md|세상을 떠나면
paraphrase|감기로 일주일 못 나가면 뭘 제출해야 해요?|인사/휴가 규정.md|진단서
paraphrase|아이 때문에 회사를 오래 쉬고 싶어요|인사/육아 지원.md|최대 1년
paraphrase|와이프가 아기를 낳으면 남편도 쉬나요|인사/육아 지원.md|20일의 유급
paraphrase|집에서 일주일에 며칠이나 일해도 되나요|인사/재택근무.md|주 2회
paraphrase|스타벅스에서 노트북으로 일해도 괜찮아요?|인사/재택근무.md|공용 와이파이
paraphrase|늦게까지 일한 날 차비를 돌려받을 수 있나|재무/경비 처리.md|4만 원
paraphrase|거래처 사람 밥 사 줄 때 얼마까지 되나요|재무/경비 처리.md|한 사람당 5만
paraphrase|회사 카드를 잃어버렸어요|재무/법인카드.md|1588-7700
paraphrase|who has to sign a very large order?|재무/purchase-policy.md|CFO
paraphrase|how long until a supplier gets its money?|재무/purchase-policy.md|45 days
paraphrase|비행기 좌석은 어느 등급까지 탈 수 있나|출장/해외 출장.md|프리미엄 이코노미
paraphrase|my mobile was stolen, how can I log in from home?|it/vpn-guide.md|4410
paraphrase|I typed my password wrong too often|it/password-policy.md|half an hour
paraphrase|where may I write down secret keys?|it/password-policy.md|KeyBarn
paraphrase|사고가 난 뒤 문서는 언제까지 써야 하나요|it/장애 대응.md|5영업일
paraphrase|how can I get deleted rows back?|it/backup.md|RST-1
paraphrase|실수로 떨어뜨려 깨졌는데 공짜로 고쳐 주나요|제품/보증.md|떨어뜨리거나
paraphrase|산 지 일주일인데 처음부터 고장이에요|제품/보증.md|새 제품으로
paraphrase|고객 데이터가 해킹당하면 어디에 얼마나 빨리 알려야 하나|법무/개인정보.md|72시간
paraphrase|for how many years must I keep a partner's plans secret?|법무/nda-template.md|three years
paraphrase|고기를 안 먹는 사람은 언제 먹을 게 있나|총무/사옥 안내.md|화요일과 목요일
paraphrase|차를 가져온 손님은 얼마나 세울 수 있나요|총무/사옥 안내.md|2시간까지
paraphrase|불이 나면 어디로 모이나요|총무/안전.md|잔디밭
paraphrase|동료가 갑자기 쓰러져 숨을 안 쉬어요|총무/안전.md|자동심장충격기
paraphrase|I want my money back|support/refunds.md|full price
paraphrase|a client threatens to sue us|support/tone.md|Minjae Seo
paraphrase|새 제품은 왜 늦게 나오나요|회의/2024-03-주간.txt|금형
paraphrase|does the company pay for a conference ticket?|교육/onboarding.md|1.2 million
identifier|PAY-5031|it/장애 대응.md|PAY-5031
identifier|PAY-5032 오류가 나면 다시 시도해도 되나요|it/장애 대응.md|PAY-5032
identifier|AUTH-2207이 자꾸 떠요|it/장애 대응.md|AUTH-2207
identifier|error 809|it/vpn-guide.md|809
identifier|4500 포트|it/vpn-guide.md|4500
identifier|corp-east-2|it/vpn-guide.md|corp-east-2
identifier|내선 4410|it/vpn-guide.md|4410
identifier|db-kr-08|it/servers.md|db-kr-08
identifier|who owns mq-kr-03?|it/servers.md|mq-kr-03
identifier|B14 랙에 뭐가 있지|it/servers.md|B14
identifier|AIR-1893|제품/release-notes.md|AIR-1893
identifier|AIR-1877은 무슨 문제였나|제품/release-notes.md|AIR-1877
identifier|4.11.2에서 바뀐 것|제품/release-notes.md|Hawaii
identifier|RD200M|제품/MX-420 사양.md|RD200M
identifier|PMS7003 센서|제품/MX-410 사양.md|PMS7003
identifier|MX-420 배터리|제품/MX-420 사양.md|26시간
identifier|MX-410 무게|제품/MX-410 사양.md|310그램
identifier|R-R-ABC-MX420|제품/MX-420 사양.md|R-R-ABC-MX420
identifier|계정과목 6210|재무/법인카드.md|6210
identifier|RST-1 티켓|it/backup.md|RST-1
identifier|1588-7700|재무/법인카드.md|1588-7700
identifier|privacy@example.com|법무/개인정보.md|privacy@example.com
word|비자|출장/해외 출장.md|비자가
word|택시비|재무/경비 처리.md|택시 비용
word|제세동기|총무/안전.md|자동심장충격기
word|라돈|제품/MX-420 사양.md|라돈을
word|일비|출장/해외 출장.md|60달러
word|금형|회의/2024-03-주간.txt|금형
word|어린이집 추첨|인사/육아 지원.md|11월에 추첨
word|Parquet|제품/release-notes.md|Parquet
word|Hawaii|제품/release-notes.md|Hawaii
word|KeyBarn|it/password-policy.md|KeyBarn
word|윤서하 이사|법무/개인정보.md|윤서하 이사
word|진단서 제출|인사/휴가 규정.md|진단서
word|주차장|총무/사옥 안내.md|지하 3층
word|회의실 예약|총무/사옥 안내.md|10분이 지나도
word|호텔비|출장/해외 출장.md|호텔은
word|인터넷요금|인사/재택근무.md|월 3만 원
word|방수등급|제품/MX-410 사양.md|방수 등급
word|재고실사|회의/2024-03-주간.txt|0.3%
word|badge|교육/onboarding.md|badge
word|buddy|교육/onboarding.md|buddy
other|비밀번호는 몇 글자 이상이어야 하나요|it/password-policy.md|14 characters
other|휴대폰을 잃어버렸을 때 임시 번호는 어떻게 받나요|it/vpn-guide.md|temporary code
other|데이터베이스 사본은 얼마나 보관하나요|it/backup.md|35 days
other|공급업체를 새로 등록하려면 무엇을 내야 하나요|재무/purchase-policy.md|business licence
other|비밀 유지 의무는 언제 끝나나요|법무/nda-template.md|three years
other|소송이 나면 어느 법원에서 다루나요|법무/nda-template.md|Seoul Central
other|제품을 돌려보내면 돈은 언제 들어오나요|support/refunds.md|five working days
other|반품 배송비는 누가 내나요|support/refunds.md|return label
other|고객에게 답장은 어떻게 써야 하나요|support/tone.md|first sentence
other|교육비는 일 년에 얼마까지 쓸 수 있나요|교육/onboarding.md|1.2 million
other|대시보드에 어두운 화면이 생겼나요|제품/release-notes.md|Dark mode
other|신입 사원은 노트북을 어디서 받나요|교육/onboarding.md|reception
other|how many days of annual leave do new employees have?|인사/휴가 규정.md|15일의 연차
other|can I work from home twice a week?|인사/재택근무.md|주 2회
other|taxi fare after working late at night|재무/경비 처리.md|택시 비용
other|how long is the warranty?|제품/보증.md|2년 동안
other|where do we meet after a fire alarm?|총무/안전.md|잔디밭
other|hotel budget per night abroad|출장/해외 출장.md|180달러
other|is there a nursery in the building?|인사/육아 지원.md|사내 어린이집
other|what should I do during an earthquake?|총무/안전.md|책상 밑
other|when is vegetarian food served in the canteen?|총무/사옥 안내.md|채식
other|how heavy is the small air quality meter?|제품/MX-410 사양.md|310그램
other|a customer closes the account, when is the data erased?|법무/개인정보.md|5일 안에
other|company credit card monthly limit|재무/법인카드.md|200만
"""
QUESTIONS = [Question(*line.split("|")) for line in _ASKED.strip().splitlines()]


def write_folder(folder: Path) -> Path:
    """Write the documents as files into a folder, two of them in cp949."""
    for number, (name, text) in enumerate(FILES.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="cp949" if number in (3, 19) else "utf-8")
    return folder
